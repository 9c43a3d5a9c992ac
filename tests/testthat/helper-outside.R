# What a session holds as the system sees it, whatever the package says of itself. For tests that it is
# after a call what it was before.

# Blocks of files without a name that are open here, in bytes: their length says nothing, since what was
# given back leaves a hole.
outside_blocks <- function() {
  links <- detritus_fds()
  numbers <- names(links)[startsWith(links, "/memfd:")]
  if (length(numbers) == 0L) return(0)
  paths <- sprintf("/proc/%d/fd/%s", Sys.getpid(), numbers)
  512 * sum(as.numeric(system2("stat", c("-L", "-c", "%b", paths), stdout = TRUE)))
}

# Mappings of shared memory, with a name and without: how many, and their bytes.
outside_maps <- function() {
  lines <- grep("/memfd:|/dev/zero", readLines("/proc/self/maps"), value = TRUE)
  edges <- strsplit(sub(" .*", "", lines), "-", fixed = TRUE)
  sizes <- vapply(edges, function(edge) {
    high_low <- function(x) sum(strtoi(c(substr(x, 1L, nchar(x) - 7L), substring(x, nchar(x) - 6L)), 16L) * c(16^7, 1))
    high_low(edge[[2L]]) - high_low(edge[[1L]])
  }, 0)
  c(count = length(lines), bytes = sum(sizes))
}

# The first line of a file about a process, "" if there is no such process: one that ends between the opening of the file
# and the reading gives no line, and no error.
proc_line <- function(pid, file = "stat") {
  line <- tryCatch(suppressWarnings(readLines(file.path("/proc", pid, file), n = 1L)), error = function(e) character())
  c(line, "")[[1L]]
}

# Children and theirs: names by pid.
outside_descendants <- function() {
  pids <- list.files("/proc", pattern = "^[0-9]+$")
  stat <- vapply(pids, proc_line, "")
  parent <- sub(" .*", "", sub("^.*\\) . ", "", stat))
  name <- sub("^[0-9]+ \\((.*)\\) .*$", "\\1", stat)
  below <- as.character(Sys.getpid())
  repeat {
    more <- union(below, pids[parent %in% below])
    if (length(more) == length(below)) break
    below <- more
  }
  found <- setdiff(below, as.character(Sys.getpid()))
  stats::setNames(name[match(found, pids)], found)
}

# What processes have open, and what they have mapped of shared memory.
outside_of_descendants <- function(pids) {
  unlist(lapply(pids, function(pid) {
    open <- Sys.readlink(list.files(file.path("/proc", pid, "fd"), full.names = TRUE))
    lines <- tryCatch(suppressWarnings(readLines(file.path("/proc", pid, "maps"))), error = function(e) character())
    mapped <- sum(grepl("/memfd:", lines, fixed = TRUE))
    c(gsub("[0-9]+", "N", open[nzchar(open)]), rep("mapping", mapped))
  }))
}

outside_held <- function() {
  gc()
  gc()
  fds <- detritus_fds()
  processes <- outside_descendants()
  list(
    descriptors = sort(unname(sub("[0-9]+", "N", fds))), maps = outside_maps(), blocks = outside_blocks(),
    processes = unname(processes), inside = outside_of_descendants(names(processes)), shm = sort(detritus_shm()),
    files = sort(detritus_temp())
  )
}

# What is there now and was not, in words.
outside_grown <- function(before, now = outside_held()) {
  more <- function(a, b) unlist(lapply(unique(b), function(x) rep(x, max(0, sum(b == x) - sum(a == x)))))
  c(
    sprintf("descriptor %s", more(before$descriptors, now$descriptors)),
    if (now$maps[["count"]] > before$maps[["count"]]) {
      sprintf("%.0f mappings", now$maps[["count"]] - before$maps[["count"]])
    },
    if (now$maps[["bytes"]] > before$maps[["bytes"]]) {
      sprintf("%.0f bytes of mappings", now$maps[["bytes"]] - before$maps[["bytes"]])
    },
    if (now$blocks > before$blocks) sprintf("%.0f bytes of shared memory", now$blocks - before$blocks),
    sprintf("process %s", more(before$processes, now$processes)),
    sprintf("in a worker %s", more(before$inside, now$inside)),
    sprintf("shared memory object %s", setdiff(now$shm, before$shm)),
    sprintf("temporary file %s", setdiff(now$files, before$files))
  )
}

# The same once what was told to end has had the time to: NULL if it is nothing.
outside_left <- function(before, timeout = 30) {
  tryCatch(wait_until(length(outside_grown(before)) == 0L, timeout), error = function(e) NULL)
  found <- outside_grown(before)
  if (length(found) > 0L) found
}

# Functions that workers elsewhere are sent: they hold nothing of this file. Each result is large enough
# for shared memory. Element 3 brings about the end of the run.
outside_job <- local({
  element <- function(i, end, session) {
    value <- list(rep(i + 0, 3e4), sprintf("%d of %d", as.integer(i), 1:2e3))
    if (i == 3) {
      switch(end,
        error = stop("on purpose"),
        killed = tools::pskill(Sys.getpid(), tools::SIGKILL),
        limit = repeat Sys.sleep(0.01),
        interrupt = {
          tools::pskill(session, tools::SIGINT)
          repeat Sys.sleep(0.01)
        }
      )
    }
    value
  }
  add <- function(a, b) list(a[[1L]] + b[[1L]], b[[2L]])
  environment(element) <- environment(add) <- globalenv()
  list(element = element, add = add)
})

# Calls of each verb; `on` and `control` as its arguments `.on` and `.control` are.
outside_map <- function(end, on, control) {
  par_lapply(1:6, outside_job$element, end = end, session = Sys.getpid(), .on = on, .control = control)
}
outside_verbs <- list(
  par_lapply = outside_map,
  par_sapply = function(end, on, control) {
    par_sapply(1:6, outside_job$element, end = end, session = Sys.getpid(), .on = on, .control = control)
  },
  par_vapply = function(end, on, control) {
    one <- function(i, element, ...) element(i, ...)[[1L]]
    environment(one) <- globalenv()
    par_vapply(1:6, one, numeric(3e4), element = outside_job$element, end = end, session = Sys.getpid(),
      .on = on, .control = control)
  },
  par_mapply = function(end, on, control) {
    par_mapply(outside_job$element, 1:6, MoreArgs = list(end = end, session = Sys.getpid()), .on = on,
      .control = control)
  },
  par_reduce = function(end, on, control) {
    par_reduce(1:6, outside_job$element, outside_job$add, end = end, session = Sys.getpid(), .on = on,
      .control = control)
  },
  par_stream = function(end, on, control) {
    stream <- par_stream(1:6, outside_job$element, end = end, session = Sys.getpid(), .on = on,
      .control = control)
    # Not to its end where nothing else ends it: it is dropped.
    for (i in seq_len(if (end == "normal") 3L else 6L)) par_next(stream)
    rm(stream)
    gc()
  },
  par_call = function(end, on, control) {
    element <- outside_job$element
    session <- Sys.getpid()
    par_value(par_call(element(3L, end, session), .on = on, .control = control))
  },
  shm_fill = function(end, on, control) {
    part <- function(range, element, end, session) {
      if (20 %in% range) element(3L, end, session)
      range + 0.5
    }
    environment(part) <- globalenv()
    shm_fill(40, part, "double", element = outside_job$element, end = end, session = Sys.getpid(), .on = on,
      .control = control) + 1
  },
  shm_map = function(end, on, control) {
    part <- function(x, element, end, session) {
      if (20 %in% x) element(3L, end, session)
      x + 0.5
    }
    environment(part) <- globalenv()
    x <- shm_share(seq_len(40) + 0, min = 0)
    shm_map(x, part, element = outside_job$element, end = end, session = Sys.getpid(), .on = on, .control = control)
    both <- function(x, y, ...) part(x, ...) + y
    environment(both) <- list2env(list(part = part), parent = globalenv())
    shm_map2(x, x, both, element = outside_job$element, end = end, session = Sys.getpid(), .on = on, .control = control)
  },
  retries = function(end, on, control) {
    control$retries <- 1L
    outside_map(end, on, control)
  },
  checkpoint = function(end, on, control) {
    control$checkpoint <- tempfile("outside-")
    on.exit(unlink(control$checkpoint, recursive = TRUE))
    outside_map(end, on, control)
  }
)
outside_all_verbs <- function() {
  if (h5_available()) c(outside_verbs, list(h5_fill = outside_h5)) else outside_verbs
}
outside_h5 <- function(end, on, control) {
  part <- function(rows, columns, element, end, session) {
    if (columns[[1L]] > 1) element(3L, end, session)
    outer(rows, columns)
  }
  # h5_fill() passes nothing on.
  environment(part) <- list2env(list(part = part, element = outside_job$element, end = end,
    session = Sys.getpid()), parent = globalenv())
  fill <- function(rows, columns) part(rows, columns, element, end, session)
  environment(fill) <- environment(part)
  path <- tempfile(fileext = ".h5")
  on.exit(unlink(path))
  m <- h5_fill(path, "m", c(200, 300), fill, chunk = c(100, 100), memory = 1e5, .on = on, .control = control)
  h5_stats(m, 1:2, c("sum", "var"), threads = 2)
  h5_stats(m, 1, "mean", groups = rep(1:3, 100), threads = 2)
  h5_apply(m, 2, function(block) colSums(block), .on = on, .control = control)
  h5_write(m[1:50, ], path, "part", chunk = c(50, 50))
  kept <- h5_cache(m, budget = "1MB")
  h5_col_sums(kept)
  h5_cache_drop(kept)
}

# Not of `.on`: mclapply() is told the number of workers, and with one the session is the worker.
outside_mclapply <- function(cores) {
  function(end, on, control) {
    session <- Sys.getpid() # arguments are promises that an element forces
    regatta::mclapply(1:6, outside_job$element, end = end, session = session, mc.cores = cores,
      mc.dump.frames = "no", mc.progress = FALSE, mc.timeout.elapsed = if (end == "limit") 0.3 else Inf)
  }
}

outside_control <- function(end, workers) {
  par_control(workers = workers, progress = FALSE, dump = "no", seed = 1L,
    timeout = if (end == "limit") 0.3 else Inf)
}

# One call, however it ends; the word for how.
outside_call <- function(verb, end, on, workers) {
  tryCatch(
    {
      suppressWarnings(verb(end, on, outside_control(end, workers)))
      "normal"
    },
    interrupt = function(e) "interrupt",
    regatta_error_timeout = function(e) "limit",
    regatta_error_death = function(e) "killed",
    error = function(e) "error"
  )
}

# par_last() holds what the last call was about: that is to be nothing of note. And workers that have died
# are replaced by a call that needs them. A worker holds what it has not collected, as a session does.
outside_settle <- function(on, workers) {
  for (i in seq_len(if (is.null(on)) 1L else 2L)) {
    par_lapply(1:2, identity, .on = on, .control = outside_control("normal", workers))
  }
  if (!is.null(on)) for (k in 1:2) parallel::clusterCall(on, gc)
}

# All calls once more: what is held is what was held after the first time. What is kept for the next calls may
# still grow by some pages, with the worker that happens to use them; what grows each time is lost. If so,
# which of the verbs is it?
expect_nothing_more <- function(verbs, end, on = NULL, workers = 2L) {
  # What was dropped is kept for later results by default, which cannot be told from a leak.
  withr::local_options(regatta.shm_keep = 0)
  withr::local_preserve_seed()
  round <- function(which = names(verbs)) {
    ended <- vapply(verbs[which], outside_call, "", end = end, on = on, workers = workers)
    outside_settle(on, workers)
    ended
  }
  ended <- round()
  # mclapply() tells of these as bettermc does, by plain errors.
  expected <- ifelse(names(verbs) == "mclapply" & end %in% c("killed", "limit"), "error", end)
  expect_identical(ended, stats::setNames(expected, names(verbs)))
  for (try in 1:4) {
    before <- outside_held()
    round()
    found <- outside_left(before)
    if (is.null(found)) break
  }
  if (!is.null(found)) {
    found <- c(found, unlist(lapply(names(verbs), function(name) {
      before <- outside_held()
      round(name)
      sprintf("%s: %s", name, outside_left(before, timeout = 0))
    })))
  }
  expect_identical(found, NULL)
}

outside_ends <- c("normal", "error", "killed", "limit", "interrupt")
