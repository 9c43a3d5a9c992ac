detritus <- detritus_snapshot()

share_and_wait <- function(folder) {
  shared <- shm_share(list(runif(1e6), rep(c("a", "b"), 1e5)))
  writeBin(with_shm_handles(serialize(shared, NULL)), file.path(folder, "part"))
  file.rename(file.path(folder, "part"), file.path(folder, "handle"))
  Sys.sleep(600)
}

read_handle <- function(folder) {
  file <- file.path(folder, "handle")
  wait_until(function() file.exists(file), 60, "the handle of another session")
  readBin(file, "raw", file.size(file))
}

test_that("a killed owner leaves nothing, and its handle says that it is gone", {
  skip_unless_linux()
  folder <- withr::local_tempdir()
  session <- local_session(share_and_wait, list(folder))
  names <- detritus_shm()
  bytes <- read_handle(folder)
  attached <- unserialize(bytes)
  pid <- session$process$get_pid()
  tools::pskill(pid, tools::SIGKILL)
  session$process$wait(10000)
  # Who had attached keeps the pages; nobody can attach any more, here by another session.
  expect_identical(sum(attached[[2L]] == "a"), 100000L)
  expect_true(all(attached[[1L]] < 1))
  late <- fault_run(function(bytes) {
    tryCatch(unserialize(bytes), error = conditionMessage)
  }, list(bytes))$value
  expect_match(late, sprintf("gone: process %d", pid))
  expect_identical(setdiff(detritus_shm(c(Sys.getpid(), pid)), names), character())
})

test_that("another user cannot attach", {
  withr::local_preserve_seed()
  skip_unless_linux()
  if (!is_root()) skip("only root can become another user")
  skip_unless_command("setpriv")
  folder <- tempfile("other-", tmpdir = "/tmp")
  dir.create(folder, mode = "0777")
  withr::defer(unlink(folder, recursive = TRUE))
  shared <- shm_share(runif(1e6))
  bytes <- with_shm_handles(serialize(shared, NULL))
  become <- c("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
  Sys.chmod(folder, "1777", use_umask = FALSE)
  skip_unless_reachable(become, folder)
  got <- fault_run(
    function(bytes) tryCatch(unserialize(bytes), error = conditionMessage), list(bytes),
    wrap = become, base = folder
  )$value
  expect_match(got, "cannot attach 8.0 MB of shared memory of process [0-9]+: Permission denied")
})

test_that("the size of what others map cannot be changed, nor what is frozen", {
  skip_unless_linux()
  # In a session that has run no map: the arena of maps is no business of other processes.
  got <- fault_run(function() {
    shared <- shm_share(runif(1e5))
    array <- shm_array(1e5)
    links <- list.files(file.path("/proc", Sys.getpid(), "fd"), full.names = TRUE)
    ours <- links[grepl("memfd:regatta", Sys.readlink(links), fixed = TRUE)]
    change <- function(command) {
      told <- suppressWarnings(system2("sh", c("-c", shQuote(command)), stdout = TRUE, stderr = TRUE))
      paste(told, collapse = " ")
    }
    list(
      shrink = vapply(ours, function(path) change(paste("truncate -s 0", path)), ""),
      grow = vapply(ours, function(path) change(paste("truncate -s 100M", path)), ""),
      write = vapply(ours, function(path) {
        change(sprintf("printf x | dd of=%s bs=1 seek=8192 conv=notrunc", path))
      }, ""),
      intact = identical(unserialize(with_shm_handles(serialize(shared, NULL))), shared),
      array = sum(array != 0)
    )
  })$value
  expect_length(got$shrink, 2L)
  expect_match(got$shrink, "Operation not permitted")
  expect_match(got$grow, "Operation not permitted")
  expect_identical(sum(grepl("Operation not permitted", got$write)), 1L)
  expect_true(got$intact)
  # A shared array is there to be written by whoever has it.
  expect_identical(got$array, 1L)
})

test_that("many shared objects take no more descriptors than there are, or say so", {
  skip_unless_command("prlimit")
  got <- fault_run(function() {
    share <- function(n) lapply(seq_len(n), function(i) shm_share(rep(i + 0, 100), min = 0))
    # What nobody uses any more takes none.
    for (i in 1:600) shm_share(i + 0, min = 0)
    error <- tryCatch(share(400), regatta_error_memory = function(e) c(conditionMessage(e), e$requested))
    # Nor do the parts of an object that is shared by one call, here and in the process that reads it.
    all <- shm_share(lapply(1:5000, function(i) rep(i + 0, 10)), min = 0)
    again <- unserialize(with_shm_handles(serialize(all, NULL)))
    list(error = error, same = identical(again[[5000]], rep(5000, 10)), free = length(share(10)))
  }, wrap = c("prlimit", "--nofile=256:256"))$value
  expect_match(got$error[[1L]], "as many files open as it may, 256 .*, and 2[0-9]{2} of them are for shared objects")
  expect_identical(got$error[[2L]], "800")
  expect_true(got$same)
  expect_identical(got$free, 10L)
})

# A library to be preloaded: the system's limit of mappings is read from the file REGATTA_TEST_MAPS, and with
# REGATTA_TEST_NO_MAPS no file can be mapped.
few_maps <- function(limit, env = parent.frame()) {
  shim <- fault_compile(c(
    "#define _GNU_SOURCE",
    "#include <dlfcn.h>",
    "#include <errno.h>",
    "#include <fcntl.h>",
    "#include <stdarg.h>",
    "#include <stdlib.h>",
    "#include <string.h>",
    "#include <sys/mman.h>",
    "static int open_real(const char *name, const char *path, int flags, int mode) {",
    "  int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);",
    "  const char *file = getenv(\"REGATTA_TEST_MAPS\");",
    "  if (file && strcmp(path, \"/proc/sys/vm/max_map_count\") == 0) path = file;",
    "  return real(path, flags, mode);",
    "}",
    "static int mode_of(int flags, va_list more) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0; }",
    "#define OPEN(name) int name(const char *path, int flags, ...) { \\",
    "    va_list more; \\",
    "    va_start(more, flags); \\",
    "    int mode = mode_of(flags, more); \\",
    "    va_end(more); \\",
    "    return open_real(#name, path, flags, mode); \\",
    "  }",
    "OPEN(open)",
    "OPEN(open64)",
    "void *mmap(void *at, size_t size, int access, int flags, int fd, off_t offset) {",
    "  void *(*real)(void *, size_t, int, int, int, off_t) =",
    "      (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, \"mmap\");",
    "  if (fd >= 0 && getenv(\"REGATTA_TEST_NO_MAPS\")) { errno = ENOMEM; return MAP_FAILED; }",
    "  return real(at, size, access, flags, fd, offset);",
    "}"
  ), "maps", preload = TRUE, env = env)
  file <- file.path(dirname(shim), "max_map_count")
  writeLines(as.character(limit), file)
  c(LD_PRELOAD = shim, REGATTA_TEST_MAPS = file)
}

test_that("shared vectors leave a quarter of the mappings to all else, or say so with numbers and leave none", {
  skip_unless_linux()
  got <- fault_run(function() {
    count <- function() length(readLines("/proc/self/maps"))
    refused <- function(code) {
      before <- count()
      error <- tryCatch({
        code
        simpleError("it was not refused")
      }, error = function(e) e)
      list(class = class(error)[[1L]], message = conditionMessage(error), grown = count() - before)
    }
    many <- lapply(1:8000, function(i) rep(i, 2))
    on_local <- function() par_lapply(1:2, function(i) length(many), .on = cluster_local(2), .control = control)
    control <- par_control(workers = 2L, progress = FALSE, share_min = 0, shm_min = 0)
    list(
      share = refused(shm_share(many, min = 0)),
      small = refused(shm_share(lapply(many, rep, 600), min = 1000)),
      map = refused(on_local()),
      # Room that a first object has taken is used by a second when nobody has the first.
      again = {
        for (i in 1:3) some <- shm_share(many[1:2500], min = 0)
        length(some)
      },
      # What is read beyond that has copies.
      handles = {
        read <- unserialize(with_shm_handles(serialize(list(some, some), NULL)))
        c(identical(read, list(many[1:2500], many[1:2500])), count() < 6200)
      },
      results = identical(par_lapply(many, rev, .control = control)[[4000L]], c(4000L, 4000L)),
      named = {
        object <- copy2shm(1:10 + 0, paste0("/regatta-maps-", Sys.getpid()))
        identical(allocate_from_shm(object), 1:10 + 0)
      },
      array = {
        rm(read)
        full <- list()
        for (i in 1:80) try(full[[i]] <- shm_share(many[1:100], min = 0), silent = TRUE)
        refused(for (i in 1:300) full[[80L + i]] <- shm_array(1))
      },
      at_most = count()
    )
  }, env = few_maps(8000))$value
  numbers <- "this process has ([0-9,]+) mappings, ([0-9,]+) of them for shared memory, and the system allows it 8,000 "
  for (what in c("share", "small", "map", "array")) {
    expect_identical(got[[!!what]]$class, "regatta_error_memory")
    expect_match(got[[what]]$message, paste0(numbers, ".*vm.max_map_count.*share_min"), info = what)
    counts <- regmatches(got[[what]]$message, regexec(numbers, got[[what]]$message))[[1L]][-1L]
    counts <- as.numeric(gsub(",", "", counts))
    expect_true(counts[[1L]] >= 6000 && counts[[1L]] <= 6100 && counts[[2L]] > 4000)
  }
  # But for R's own heap.
  expect_lt(max(got$share$grown, got$small$grown, got$map$grown), 500)
  expect_identical(got[c("again", "handles", "results", "named")], list(
    again = 2500L, handles = c(TRUE, TRUE), results = TRUE, named = TRUE
  ))
  expect_lt(got$at_most, 6200)
})

test_that("a system that maps nothing more is an error with numbers, whoever asks", {
  skip_unless_linux()
  got <- fault_run(function() {
    none <- function(code) {
      Sys.setenv(REGATTA_TEST_NO_MAPS = "1")
      on.exit(Sys.unsetenv("REGATTA_TEST_NO_MAPS"))
      tryCatch({
        code
        "it was not refused"
      }, error = function(e) c(class(e)[[1L]], conditionMessage(e)))
    }
    x <- shm_share(list(1:10 + 0, "a"), min = 0)
    bytes <- lapply(list(x, x[[2L]]), function(x) with_shm_handles(serialize(x, NULL)))
    call <- par_call(list(numeric(1e5)), .control = par_control(workers = 1L, progress = FALSE))
    list(
      share = none(shm_share(list(1, 2), min = 0)), handle = none(unserialize(bytes[[1L]])),
      string = none(unserialize(bytes[[2L]])), array = none(shm_array(10)), lock = none(shm_lock()),
      result = none(par_value(call)), regions = nrow(shm_info()$regions)
    )
  }, env = few_maps(65530))$value
  for (what in setdiff(names(got), "regions")) {
    expect_identical(got[[!!what]][[1L]], "regatta_error_memory")
    message <- "cannot map .*this process has [0-9,]+ mappings, .*no memory or addresses"
    expect_match(got[[what]][[2L]], message, info = what)
  }
  expect_identical(got$regions, 1L)
})

test_that("results that nobody uses any more are given back where the addresses of a process are limited", {
  skip_unless_command("prlimit")
  got <- fault_run(function() {
    one_by_one <- par_stream(1:40, function(i) rep(i + 0, 1e6), ahead = "8MB", .control = par_control(workers = 2L))
    result <- par_next(one_by_one)
    # Room for a part of what follows. Nothing of that is on R's own heap, which would collect by itself.
    status <- readLines("/proc/self/status")
    size <- as.numeric(gsub("[^0-9]", "", grep("^VmSize", status, value = TRUE))) * 1024
    system2("prlimit", c("--pid", Sys.getpid(), sprintf("--as=%.0f:", size + 1e8)))
    while (par_more(one_by_one)) result <- par_next(one_by_one)
    result[[1e6]]
  })$value
  expect_identical(got, 40)
})

test_that("the label of a file in memory tells what it is", {
  skip_unless_linux()
  got <- fault_run(function() {
    labels <- function() {
      links <- Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
      sort(sub("^/memfd:([^ ]*).*", "\\1", grep("^/memfd:", links, value = TRUE)))
    }
    shared <- shm_share(runif(1e5))
    array <- shm_array(1e5)
    lock <- shm_lock()
    before <- labels()
    values <- par_lapply(1:2, function(i) rep(i, 1e5), .control = par_control(workers = 2L, progress = FALSE))
    list(before, setdiff(labels(), before))
  })$value
  expect_identical(got[[1L]], c("regatta-array", "regatta-array", "regatta-shared"))
  expect_true(all(c("regatta-arena", "regatta-spans") %in% got[[2L]]))
  expect_false("regatta" %in% got[[2L]])
})

test_that("sizes of stored strings that other code has overwritten are not believed", {
  skip_unless_linux()
  library <- fault_compile("
    #include <Rinternals.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <string.h>
    #include \"shm-bytes.h\"
    /* Writes to all strings that are mapped privately here; how many there were, and what stood there. */
    SEXP smash(SEXP offset, SEXP value) {
      char line[512], kind[8];
      unsigned long start;
      SEXP found = PROTECT(Rf_allocVector(REALSXP, 2));
      REAL(found)[0] = REAL(found)[1] = 0;
      FILE *maps = fopen(\"/proc/self/maps\", \"r\");
      while (maps && fgets(line, sizeof line, maps)) {
        if (!strstr(line, \"memfd:regatta\") || sscanf(line, \"%lx-%*x %7s\", &start, kind) != 2) continue;
        if (strcmp(kind, \"rw-p\") != 0 || ((rg_string_header *)start)->magic != RG_STRING_MAGIC) continue;
        int64_t *at = (int64_t *)(start + (size_t)Rf_asReal(offset));
        REAL(found)[0]++;
        REAL(found)[1] = (double)*at;
        *at = (int64_t)Rf_asReal(value);
      }
      if (maps) fclose(maps);
      UNPROTECT(1);
      return found;
    }", "smash", flags = source_headers())
  at <- offsets_of("shm-bytes.h", "rg_string_header", c("length", "distinct", "text", "indexed"))
  plain <- rep(sprintf("s%d", 1:1000), 100)
  text <- sum(nchar(unique(plain)))
  header <- at[["indexed"]] + 8 # where the numbers of the strings begin, 4 bytes each, and after them their ends
  # Elements, distinct strings, bytes of text, numbered or not; a number; where a string ends.
  cases <- list(
    list(at = at[["length"]], before = 1e5, value = 1e12), list(at = at[["distinct"]], before = 1000, value = 1e12),
    list(at = at[["text"]], before = text, value = 1e15), list(at = at[["indexed"]], before = 1, value = 0),
    list(at = header, before = 2^32, value = 2^40 - 1), list(at = header + 4e5, before = 2, value = 1e15)
  )
  got <- fault_run(function(library, plain, cases) {
    dll <- dyn.load(library)
    smash <- function(offset, value) .Call(getNativeSymbolInfo("smash", dll), offset, value)
    lapply(cases, function(case) {
      x <- shm_share(plain)
      found <- smash(case$at, case$value)
      seen <- tryCatch(identical(x[seq_along(x)], plain), error = conditionMessage)
      rm(x)
      gc()
      list(found, seen)
    })
  }, list(library, plain, cases))$value
  for (k in seq_along(cases)) expect_identical(got[[!!k]][[1L]], c(1, cases[[k]]$before))
  for (g in got[1:4]) expect_true(g[[2L]])
  for (g in got[5:6]) expect_match(g[[2L]], "is damaged")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
