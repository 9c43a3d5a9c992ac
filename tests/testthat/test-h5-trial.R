# What libhdf5 is asked for the first time a program of its own is asked before, whose end is an error here.
detritus <- detritus_snapshot()
one <- par_control(workers = 1L, seed = FALSE)
is_waiting <- function(file) length(suppressWarnings(tryCatch(readLines(file), error = function(e) NULL))) == 1L

# A program in the place of ours, by lines of the shell; its connection is descriptor 3. Its pid is in a file.
local_program <- function(lines, env = parent.frame()) {
  path <- withr::local_tempfile(.local_envir = env)
  pid <- withr::local_tempfile(.local_envir = env)
  writeLines(c("#!/bin/sh", "head -c 4 <&3 >/dev/null", paste0("echo $$ >", pid), lines), path)
  Sys.chmod(path, "700")
  .Call(regatta:::ffi_trial_end)
  local_function("h5_trial_program", function() path, env)
  pid
}

# The requests that came to an end, from now on.
local_requests <- function(env = parent.frame()) {
  seen <- character()
  note <- regatta:::h5_note_trial
  local_function("h5_note_trial", function(state, request) {
    seen <<- c(seen, request[[1L]])
    note(state, request)
  }, env)
  function() {
    now <- seen
    seen <<- character()
    now
  }
}

some_h5 <- function(x = matrix(1:6, 2), env = parent.frame(), ...) {
  path <- withr::local_tempfile(fileext = ".h5", .local_envir = env)
  h5_write(x, path, "x", ..., .control = one)
  normalizePath(path)
}

test_that("a crash of the program is an error that names the file and how it ended", {
  skip_without_h5()
  path <- some_h5()
  for (signal in c("SIGSEGV", "SIGBUS", "SIGABRT", "SIGKILL")) {
    local_program(sprintf("kill -%s $$", sub("SIG", "", signal)))
    # Each time: what has failed is not known to be right.
    for (k in 1:2) {
      error <- expect_error(h5_ls(path), class = "regatta_error_h5")
      expect_identical(error$path, path)
      expect_match(conditionMessage(error), paste("libhdf5 has crashed with", path), fixed = TRUE)
      expect_match(conditionMessage(error), signal, fixed = TRUE)
      expect_identical(conditionCall(error), quote(h5_ls(path)))
    }
  }
  expect_match(conditionMessage(error), "there was too little memory")
  local_program("exit 3")
  expect_error(h5_ls(path), "(status 3)", fixed = TRUE)
})

test_that("what does not come to an end is ended in time", {
  skip_without_h5()
  path <- some_h5()
  withr::local_options(regatta.h5_trial = 0.5)
  pid <- local_program("exec sleep 300")
  expect_error(h5_ls(path), "has not come to an end with .* within 0.5 s", class = "regatta_error_h5")
  expect_false(file.exists(file.path("/proc", readLines(pid))))
})

test_that("Ctrl-C ends the program and the call", {
  skip_without_h5()
  path <- some_h5()
  pid <- local_program("exec sleep 300")
  session <- fault_start(function(path, program) {
    utils::assignInNamespace("h5_trial_program", function() program, "regatta")
    suspendInterrupts({
      caught <- tryCatch(allowInterrupts(h5_ls(path)), interrupt = function(e) "interrupt")
      cat("after", caught, "\n")
    })
  }, list(path = path, program = regatta:::h5_trial_program()))
  withr::defer(fault_end(session))
  wait_until(function() is_waiting(pid), 60, "the program")
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  fault_wait_line(session, "^after interrupt")
  expect_false(file.exists(file.path("/proc", readLines(pid))))
})

test_that("a limit of time ends the program and the call", {
  skip_without_h5()
  path <- some_h5()
  pid <- local_program("exec sleep 300")
  read <- function() {
    setTimeLimit(elapsed = 1, transient = TRUE)
    h5_ls(path)
  }
  withr::local_options(regatta.h5_trial = 60)
  seconds <- system.time(expect_error(read(), "time limit"))[["elapsed"]]
  setTimeLimit()
  expect_lt(seconds, 50)
  expect_false(file.exists(file.path("/proc", readLines(pid))))
})

test_that("the program ends with its session, and with the namespace", {
  skip_without_h5()
  path <- some_h5()
  lines <- c(
    "suppressWarnings(library(regatta))", sprintf("invisible(h5_ls(%s))", deparse(path)),
    "words <- function(pid) readLines(file.path('/proc', pid, 'cmdline'), skipNul = TRUE, warn = FALSE)",
    "words_of <- function(pid) tryCatch(suppressWarnings(words(pid)), error = function(e) '')",
    "is_program <- function(pid) any(endsWith(words_of(pid), paste0('regatta-h5-try', Sys.getpid())))",
    "program <- function() Filter(is_program, list.files('/proc', '^[0-9]+$'))"
  )
  pid <- session_prints(c(lines, "cat(program())"))
  expect_match(pid, "^[0-9]+$")
  wait_until(function() !file.exists(file.path("/proc", pid)), 60, "the end of the program")
  expect_identical(session_prints(c(lines, "unloadNamespace('regatta')", "cat(length(program()))")), "0")
})

test_that("one that has gone meanwhile costs nothing", {
  skip_without_h5()
  path <- some_h5()
  requests <- local_requests()
  expect_identical(h5_matrix(path, "x")[, ], matrix(1:6, 2))
  requests()
  Sys.setFileTime(path, Sys.time() - 100)
  for (pid in names(detritus_children())) {
    if (grepl("regatta-h5", proc_line(pid))) tools::pskill(as.integer(pid), tools::SIGKILL)
  }
  expect_identical(h5_matrix(path, "x")[, ], matrix(1:6, 2))
  expect_true("describe" %in% requests())
})

test_that("where it cannot be started nothing is read, and it is said what to do", {
  skip_without_h5()
  path <- some_h5()
  Sys.setFileTime(path, Sys.time() - 100)
  h5_ls(path)
  for (program in c(tempfile(), withr::local_tempfile(lines = "no program"), tempdir())) {
    .Call(regatta:::ffi_trial_end)
    local_function("h5_trial_program", function() program)
    error <- expect_error(h5_matrix(path, "x"), "regatta-h5-try could not be started", class = "regatta_error_h5")
    expect_match(conditionMessage(error), "options(regatta.h5_trial = FALSE)", fixed = TRUE)
    expect_identical(error$path, path)
  }
  expect_match(conditionMessage(error), "Permission denied", fixed = TRUE)
  withr::local_options(regatta.h5_trial = FALSE)
  expect_identical(h5_matrix(path, "x")[, ], matrix(1:6, 2))
})

test_that("one that has crashed and cannot be started again is no answer", {
  skip_without_h5()
  path <- some_h5()
  Sys.setFileTime(path, Sys.time() - 100)
  local_program("")
  # It answers once, and ends when it is asked again.
  program <- regatta:::h5_trial_program()
  hears <- "head -c 4 <&3 >/dev/null"
  rest <- "dd bs=100000 count=1 <&3 >/dev/null"
  writeLines(c("#!/bin/sh", hears, rest, sprintf("rm %s", program), "printf '\\001' >&3", hears), program)
  h5_ls(path)
  expect_error(h5_matrix(path, "x"), "could not be started", class = "regatta_error_h5")
})

test_that("descriptors above a limit that was lowered later hinder nobody", {
  skip_without_h5()
  skip_unless_command("prlimit")
  path <- some_h5()
  said <- session_prints(c(
    "suppressWarnings(library(regatta))", "open <- lapply(1:60, function(i) file('/dev/null', 'r'))",
    "invisible(system(sprintf('prlimit --nofile=40:200 --pid %d', Sys.getpid())))",
    "for (one in open[1:50]) close(one)", sprintf("cat(h5_ls(%s)$name)", deparse(path))
  ))
  expect_identical(said, "x")
})

test_that("what was tried is known as long as the file is the same", {
  skip_without_h5()
  path <- some_h5()
  requests <- local_requests()
  Sys.setFileTime(path, Sys.time() - 100)
  h5_ls(path)
  expect_identical(requests(), "list")
  h5_ls(path)
  expect_identical(requests(), character())
  m <- h5_matrix(path, "x")
  expect_setequal(requests(), c("describe", "values"))
  m[1, 2]
  expect_identical(requests(), "locate")
  h5_stats(m, 1, "sum")
  h5_cache(m)[, ]
  h5_matrix(path, "x")[2, ]
  expect_identical(requests(), character())
  format(m)
  expect_identical(requests(), "stored")
  # Somebody may give it any time of its last change.
  time <- file.mtime(path)
  file.copy(path, other <- withr::local_tempfile())
  file.copy(other, path, overwrite = TRUE)
  Sys.setFileTime(path, time)
  m[1, 2]
  h5_annotation(m, 1)
  expect_true(all(c("locate", "describe", "list") %in% requests()))
  # An error is an end, too; of a file that is not there, and of a folder, others tell.
  for (k in 1:2) expect_error(h5_matrix(path, "none"), "there is no `none`")
  expect_identical(requests(), "describe")
  for (none in c(tempfile(), tempdir())) expect_error(h5_ls(none), "cannot open")
  expect_identical(requests(), character())
  h5_write(matrix(1, 2, 2), path, "y", .control = one)
  expect_true("list" %in% requests())
})

test_that("a part of many chunks is tried by itself, each time, until all are known", {
  skip_without_h5()
  path <- some_h5(matrix(0, 200, 101), chunk = c(1, 1))
  m <- h5_matrix(path, "x")
  requests <- local_requests()
  for (k in 1:2) {
    expect_identical(m[2, 3], 0)
    expect_identical(t(m)[3:4, 2], c(0, 0))
    expect_identical(requests(), c("locate", "locate"))
  }
  h5_stats(m, 1, "sum")
  expect_identical(requests(), "locate")
  m[1, 1]
  expect_identical(requests(), character())
})

test_that("all that a request may have in it arrives", {
  skip_without_h5()
  path <- some_h5()
  bytes <- regatta:::h5_request_bytes(list("list", "\u00e4", c(1, 2), "", numeric()))
  expect_identical(bytes, c(
    writeBin(c(5L, 4L), raw()), charToRaw("list"), writeBin(2L, raw()), as.raw(c(0xc3, 0xa4)),
    writeBin(16L, raw()), writeBin(c(1, 2), raw()), writeBin(c(0L, 0L), raw())
  ))
  # More than a connection holds at a time.
  many <- list("locate", path, "x", numeric(), rep(c(1, 2, 3), 1e5), "all")
  ask <- function(request) {
    .Call(regatta:::ffi_trial, regatta:::h5_trial_program(), regatta:::h5_request_bytes(request), 60)
  }
  for (k in 1:2) expect_identical(ask(many), 1L)
})

test_that("the option leaves trials out, sets their time, and is checked", {
  skip_without_h5()
  path <- some_h5()
  requests <- local_requests()
  withr::local_options(regatta.h5_trial = FALSE)
  h5_ls(path)
  expect_identical(requests(), character())
  for (wrong in list(0, -1, NA, "10", TRUE, c(1, 2))) {
    options(regatta.h5_trial = wrong)
    expect_error(h5_ls(path), "options(regatta.h5_trial = )", fixed = TRUE, class = "regatta_error_argument")
  }
  for (k in 1:3) {
    options(regatta.h5_trial = list(NULL, 20L, Inf)[[k]])
    Sys.setFileTime(path, Sys.time() - 100 * k)
    h5_ls(path)
    expect_identical(requests(), "list")
  }
})

test_that("what is in other files is tried each time", {
  skip_without_h5()
  skip_without_h5py()
  folder <- withr::local_tempdir()
  other <- file.path(folder, "other.h5")
  h5_write(matrix(1:6, 2), other, "x", .control = one)
  main <- file.path(folder, "main.h5")
  h5_by_python(main, c(
    "f['outside'] = h5py.ExternalLink('other.h5', '/x')", "f['way'] = h5py.ExternalLink('other.h5', '/')",
    "f['soft'] = h5py.SoftLink('/outside')", "layout = h5py.VirtualLayout(shape=(3, 2), dtype='i4')",
    "layout[:, :] = h5py.VirtualSource('other.h5', 'x', shape=(3, 2))", "f.create_virtual_dataset('virtual', layout)",
    "f['own'] = [[1, 2], [3, 4]]"
  ))
  requests <- local_requests()
  for (name in c("outside", "way/x", "soft", "virtual")) {
    expect_identical(h5_matrix(main, name)[, ], matrix(1:6, 2), info = name)
    expect_identical(setdiff(requests(), "values"), character(), info = name)
  }
  h5_ls(main, "way")
  expect_identical(requests(), character())
  h5_matrix(main, "own")[, ]
  expect_setequal(requests(), c("describe", "values", "locate"))
  file.copy(testthat::test_path("h5", "crashing.h5"), other, overwrite = TRUE)
  withr::local_options(regatta.h5_trial = 2)
  for (name in c("outside", "way/x", "soft", "virtual")) {
    expect_error(h5_matrix(main, name)[, ], class = "regatta_error_h5", info = name)
  }
})

# The table of a global heap, whose index in a file libhdf5 1.10 believes, has a few hundred entries. Newer versions
# look.
test_that("names that lie beyond a table of the file are an error each time", {
  skip_if(!identical(Sys.getenv("REGATTA_SANITIZER"), ""), "libhdf5 reads beyond its memory")
  skip_if(!grepl("gnu", R.version$os), "the program's memory is not guarded without the C library of GNU")
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  believes <- numeric_version(attr(h5_available(), "hdf5")) < "1.12"
  for (field in c("", "text")) {
    type <- if (nzchar(field)) "[('n', 'i4'), ('text', h5py.string_dtype())]" else "h5py.string_dtype()"
    values <- if (nzchar(field)) "(1, 'first'), (2, 'second')" else "'first', 'second'"
    h5_by_python(path, sprintf("f['names'] = np.array([%s], %s)", values, type))
    request <- regatta:::h5_requests("ffi_h5_values", list(path, "names", "", field))[[1L]]
    ask <- function() .Call(regatta:::ffi_trial, regatta:::h5_trial_program(), regatta:::h5_request_bytes(request), 60)
    expect_false(is.list(ask()), info = field)
    expect_identical(regatta:::h5_values(path, "names", field = field), c("first", "second"))
    bytes <- readBin(path, "raw", 1e6)
    # Length, address of the heap and index of the second one.
    at <- grepRaw(as.raw(c(6, 0, 0, 0)), bytes, fixed = TRUE, all = TRUE)
    address <- grepRaw(charToRaw("GCOL"), bytes, fixed = TRUE) - 1L
    at <- at[vapply(at, function(k) identical(readBin(bytes[k + 4:7], "integer"), address), NA)]
    expect_length(at, 1L)
    for (index in c(1000L, 9000L, 65000L)) {
      bytes[at + 12:15] <- writeBin(index, raw())
      writeBin(bytes, path)
      expect_error(regatta:::h5_values(path, "names", field = field), class = "regatta_error_h5")
      if (believes) expect_true(is.list(ask()), info = paste("index", index, field))
    }
  }
})

test_that("Ctrl-C ends a call that is inside of one large chunk", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  # 1 GB of zeros, in 1 MB.
  h5_by_python(path, c(
    "import zlib", "d = f.create_dataset('x', (10000, 25000), 'i4', chunks=(10000, 25000), compression='gzip')",
    "c = zlib.compressobj(9)", "z = b''.join([c.compress(bytes(10**7)) for _ in range(100)]) + c.flush()",
    "d.id.write_direct_chunk((0, 0), z)"
  ))
  session <- fault_start(function(path) {
    m <- h5_matrix(path, "x")
    start <- proc.time()
    cat("begun\n")
    caught <- tryCatch(h5_col_sums(m), interrupt = function(e) "interrupt")
    cat("after", caught[[1L]], "\n")
    # Some of what it takes to its end, whatever the machine is at.
    used <- sum((proc.time() - start)[1:2])
    whole <- sum(system.time(m[1, 1])[1:2])
    cat("soon", used < whole / 2, "\n")
  }, list(path = path))
  withr::defer(fault_end(session))
  fault_wait_line(session, "^begun")
  Sys.sleep(0.3)
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  fault_wait_line(session, "^after interrupt")
  expect_true(fault_wait_line(session, "^soon TRUE"))
})

test_that("workers have a program of their own", {
  skip_without_h5()
  path <- some_h5()
  Sys.setFileTime(path, Sys.time() - 100)
  read <- function(i) h5_matrix(path, "x")[i, ]
  h5_ls(path)
  for (on in list(NULL, local_pool(1L))) {
    expect_identical(par_lapply(1:2, read, .on = on, .control = one), list(c(1L, 3L, 5L), c(2L, 4L, 6L)))
    expect_identical(par_lapply(1:2, read, .on = on, .control = one)[[2L]], c(2L, 4L, 6L))
  }
  expect_identical(h5_matrix(path, "x")[1, ], c(1L, 3L, 5L))
})

# Found by the fuzzer of tests/fuzz. What libhdf5 makes of them differs between its versions.
test_that("files that libhdf5 crashes on, or never ends with, are errors of everything that reads", {
  skip_without_h5()
  withr::local_options(regatta.h5_trial = 2)
  for (name in c("crashing.h5", "endless.h5")) {
    path <- withr::local_tempfile(fileext = ".h5")
    file.copy(testthat::test_path("h5", name), path)
    reads <- list(
      list = function() h5_ls(path), nameless = function() h5_matrix(path), matrix = function() h5_matrix(path, "<f8"),
      sparse = function() h5_sparse(path), named = function() h5_sparse(path, "X"),
      written = function() h5_write(matrix(1:4, 2), path, "new", .control = one)
    )
    ends <- vapply(reads, function(read) {
      tryCatch({
        read()
        "value"
      }, regatta_error_argument = function(e) "argument", regatta_error_h5 = function(e) "h5")
    }, "")
    expect_true(all(ends %in% c("value", "argument", "h5")), info = name)
  }
})

test_that("an object whose file was damaged later is an error, not a crash", {
  skip_without_h5()
  withr::local_options(regatta.h5_trial = 2)
  path <- some_h5()
  m <- h5_matrix(path, "x")
  expect_identical(m[2, 3], 6L)
  for (name in c("crashing.h5", "endless.h5")) {
    file.copy(testthat::test_path("h5", name), path, overwrite = TRUE)
    reads <- list(
      part = function() m[1, ], stats = function() h5_stats(m, 1, "sum"), cache = function() h5_cache(m),
      annotation = function() h5_annotation(m, 1), apply = function() h5_apply(m, 1, dim, .control = one)
    )
    for (read in reads) expect_error(read(), class = "regatta_error")
    expect_match(format(m), "^<h5_matrix> 2 x 3 of int32$", all = FALSE)
  }
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
