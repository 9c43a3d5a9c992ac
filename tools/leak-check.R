# Many calls of every kind in one session: what the session holds afterwards must be what it held
# after the first few. Counts of file descriptors, mappings, children and bytes; no times.

library(regatta)

# Dropped results are kept for the next ones by default, which here would look like a leak.
options(regatta.shm_keep = 0)

# A leak grows with every block of calls. The heap of R grows until it has touched all that it may
# use between two collections, in steps that halve; so the check is over with the first block that
# leaves everything as it was, and has blocks enough for calls that use little of the heap each.
warm_calls <- 3L
calls <- 12L
blocks <- 12L
# A lost buffer of the smallest kind used here (64 KB) in every call shows.
bytes_allowed <- calls * 64 * 1024
mappings_allowed <- 4L

control <- function(...) {
  par_control(
    workers = 2L, progress = FALSE, dump = "no", messages = "drop", warnings = "drop",
    stdout = "drop", stderr = "drop", ...
  )
}

work <- list(
  small = function() par_lapply(1:50, function(i) i, .control = control()),
  large = function() {
    par_lapply(1:4, function(i) list(rep(i + 0, 2e5), data.frame(a = seq_len(1e5), b = i)),
      .control = control())
  },
  text = function() {
    par_lapply(1:4, function(i) sprintf("%d of %d", i, 1:2e4), .control = control())
  },
  copied = function() par_lapply(1:4, function(i) rep(i, 1e5), .control = control(copy = TRUE)),
  chatty = function() {
    par_lapply(1:4, function(i) {
      cat(strrep("x", 1e4), "\n")
      message("said by ", i)
      warning("warned by ", i)
    }, .control = control())
  },
  errors = function() {
    suppressWarnings(par_lapply(1:6, function(i) if (i == 3L) stop("on purpose") else raw(1e5),
      .control = control(errors = "collect")))
  },
  stops = function() {
    tryCatch(par_lapply(1:20, function(i) if (i == 3L) stop("on purpose") else numeric(1e5),
      .control = control()), error = identity)
  },
  deaths = function() {
    suppressWarnings(par_lapply(1:4, function(i) {
      if (i == 2L) tools::pskill(Sys.getpid(), tools::SIGKILL)
      numeric(1e5)
    }, .control = control(errors = "collect")))
  },
  retries = function() {
    suppressWarnings(par_lapply(1:2, function(i) stop("again"),
      .control = control(errors = "collect", retries = 2L)))
  },
  vapply = function() par_vapply(1:20, function(i) i / 2, 0, .control = control()),
  mapply = function() par_mapply(function(a, b) a + b, 1:4, 4:1, .control = control()),
  call = function() par_value(par_call(numeric(1e5), .control = control())),
  shared = function() {
    shared <- shm_share(list(rep(1.5, 1e5), rep(letters, 1e4)))
    again <- unserialize(serialize(shared, NULL))
    again[[1L]][1L] <- 0
    par_lapply(1:2, function(i) shared, .control = control())
  },
  array = function() {
    x <- shm_fill(1e5, function(range) range + 0.5, .control = control())
    with_shm_lock(shm_lock(), shm_add(shm_counter()))
    x + 1
  },
  stream = function() {
    stream <- par_stream(1:6, function(i) numeric(1e5), .control = control())
    par_next(stream)
    par_next(stream)
  },
  unclaimed = function() par_call(Sys.sleep(60), .control = control()),
  interrupted = function() {
    try(setTimeLimit(elapsed = 0.3, transient = TRUE), silent = TRUE)
    on.exit(setTimeLimit())
    tryCatch(par_lapply(1:4, function(i) Sys.sleep(60), .control = control()), error = identity)
  }
)

children <- function() {
  pids <- list.files("/proc", pattern = "^[0-9]+$")
  parents <- vapply(pids, function(pid) {
    line <- tryCatch(
      suppressWarnings(readLines(file.path("/proc", pid, "stat"), 1L)),
      error = function(e) character()
    )
    if (length(line) == 0L) "" else strsplit(sub("^.*\\) ", "", line), " ")[[1]][2]
  }, "")
  sum(parents == as.character(Sys.getpid()))
}

memory_field <- function(field) {
  line <- grep(paste0("^", field, ":"), readLines("/proc/self/status"), value = TRUE)
  1024 * as.numeric(gsub("[^0-9]", "", line))
}

# Bytes that the files without a name hold, which this process has open. Their length says nothing,
# since pages that were given back leave a hole.
memfd_bytes <- function(fds) {
  ours <- grep("memfd:", Sys.readlink(fds))
  if (length(ours) == 0L) return(0)
  numbers <- basename(fds[ours])
  paths <- file.path("/proc", Sys.getpid(), "fd", numbers)
  512 * sum(as.numeric(system2("stat", c("-L", "-c", "%b", paths), stdout = TRUE)))
}

held <- function() {
  for (i in 1:3) used <- gc()[, "used"]
  fds <- list.files("/proc/self/fd", full.names = TRUE)
  c(
    descriptors = length(fds), children = children(),
    mappings = length(readLines("/proc/self/maps")),
    objects = sum(used * c(56, 8)),
    heap = memory_field("RssAnon"), shared = memory_field("RssShmem"),
    arena = memfd_bytes(fds), temporary = length(list.files(tempdir(), all.files = TRUE))
  )
}

run <- function(task, times) {
  for (i in seq_len(times)) task()
  invisible()
}

check_one <- function(name) {
  run(work[[name]], warm_calls)
  allowed <- c(
    descriptors = 0, children = 0, mappings = mappings_allowed,
    objects = bytes_allowed, heap = bytes_allowed,
    shared = bytes_allowed, arena = bytes_allowed, temporary = 0
  )
  for (block in seq_len(blocks)) {
    before <- held()
    run(work[[name]], calls)
    grown <- held() - before
    over <- grown > allowed
    if (!any(over)) break
  }
  cat(sprintf("leaks: %-12s %s\n", name, if (any(over)) "GROWS" else "ok"))
  sprintf(
    "%s: %s grows, in the last of %d blocks by %.0f in %d calls, %.0f allowed",
    name, names(grown)[over], blocks, grown[over], calls, allowed[over]
  )
}

if (!file.exists("/proc/self/maps")) {
  cat("leaks: skipped by name: this system has no /proc/self\n")
  quit(status = 0L)
}
found <- unlist(lapply(names(work), check_one))
writeLines(sprintf("leaks: %s", found))
if (length(found) > 0L) quit(status = 1L)
cat("leaks: nothing grows\n")
