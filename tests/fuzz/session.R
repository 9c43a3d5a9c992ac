# Damaged files through everything that reads them, in sessions of R that must survive: `make fuzz TARGET=session`.
#   Rscript session.R SECONDS OUT FOLDER ...
# Files of the folders are damaged at random and read. A session that ends is started again, and its file is kept in
# OUT/crashes; so is one whose error is none of the package's.

damaged <- function(bytes) {
  for (round in seq_len(sample(c(1L, 1L, 2L, 3L, 5L, 10L), 1L))) {
    n <- length(bytes)
    # What a file says of itself is mostly at its begin.
    at <- if (runif(1) < 0.4) sample.int(min(n, 3000L), 1L) else sample.int(n, 1L)
    here <- at:min(n, at + sample(c(1L, 2L, 4L, 8L), 1L) - 1L)
    bytes <- switch(sample.int(6L, 1L),
      replace(bytes, at, as.raw(sample(0:255, 1L))),
      replace(bytes, at, xor(bytes[at], as.raw(2^sample(0:7, 1L)))),
      replace(bytes, at, as.raw((as.integer(bytes[at]) + sample(c(-1L, 1L), 1L)) %% 256L)),
      replace(bytes, here, as.raw(sample(c(0L, 1L, 127L, 128L, 255L), 1L))),
      replace(bytes, here, bytes[sample.int(n - length(here) + 1L, 1L) + seq_along(here) - 1L]),
      if (runif(1) < 0.2) bytes[seq_len(at)] else bytes
    )
  }
  bytes
}

# Everything that reads; `try` evaluates a call and notes its error.
read_all <- function(path, try) {
  one <- par_control(workers = 1L, progress = FALSE, seed = FALSE)
  found <- try(h5_ls(path))
  names <- unique(found$name[found$kind == "dataset"])
  for (name in names[sample.int(length(names), min(length(names), 12L))]) {
    m <- try(h5_matrix(path, name))
    if (is.null(m)) next
    few <- lapply(dim(m), function(extent) seq_len(min(extent, 3)))
    try(if (prod(dim(m)) < 1e5) m[, ] else m[few[[1L]], few[[2L]]])
    if (prod(dim(m)) > 1e7) next
    try(h5_stats(m, 1:2, c("sum", "min", "var")))
    more <- sample.int(8L, 1L)
    if (more == 1L) try(h5_row_medians(m))
    if (more == 2L) try(h5_col_sums(h5_cache(m, "4MB")))
    if (more == 3L) try(h5_annotation(m, 1))
    if (more == 4L && runif(1) < 0.2) try(h5_apply(m, 2, sum, .control = one))
    if (more == 5L) try(format(m))
  }
  s <- try(h5_sparse(path))
  if (!is.null(s)) {
    for (margin in 1:2) try(h5_annotation(s, margin))
    if (prod(dim(s)) < 1e7) try(h5_stats(s, 1:2, c("sum", "var")))
    if (prod(dim(s)) < 1e6) try(h5_col_medians(s))
    try(s[, seq_len(min(2, ncol(s)))])
  }
  if (runif(1) < 0.1) try(h5_write(matrix(1:4, 2), path, "new", .control = one))
}

session <- function(seed, until, folder, sources) {
  suppressMessages(library(regatta))
  options(regatta.h5_trial = 2, warn = -1)
  bytes <- lapply(sources, function(source) readBin(source, "raw", file.size(source)))
  # Those that another file takes its elements from keep their names.
  file.copy(sources, folder)
  current <- file.path(folder, "current.h5")
  count <- 0L
  set.seed(seed)
  while (as.numeric(Sys.time()) < until && count < 300L) {
    count <- count + 1L
    writeBin(damaged(bytes[[sample.int(length(bytes), 1L)]]), current)
    foreign <- character()
    try <- function(code) {
      tryCatch(code, regatta_error = function(e) NULL, error = function(e) {
        foreign <<- c(foreign, paste(deparse1(conditionCall(e)), conditionMessage(e), sep = ": "))
        NULL
      })
    }
    read_all(current, try)
    if (length(foreign) > 0L) {
      file.copy(current, file.path(folder, sprintf("foreign-%d-%d.h5", seed, count)))
      writeLines(foreign, file.path(folder, sprintf("foreign-%d-%d.txt", seed, count)))
    }
    writeLines(as.character(count), file.path(folder, "count"))
  }
}

hunt <- function(seconds, out, sources) {
  crashes <- file.path(out, "crashes")
  dir.create(crashes, recursive = TRUE, showWarnings = FALSE)
  until <- as.numeric(Sys.time()) + seconds
  script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  seed <- as.integer(Sys.time())
  files <- ended <- foreign <- 0L
  while (as.numeric(Sys.time()) < until) {
    seed <- seed + 1L
    folder <- tempfile("session-")
    dir.create(folder)
    status <- system2(
      file.path(R.home("bin"), "Rscript"),
      shQuote(c("--vanilla", script, "--session", seed, format(until, digits = 15), folder, sources)),
      stdout = FALSE, stderr = file.path(folder, "stderr")
    )
    count <- file.path(folder, "count")
    if (file.exists(count)) files <- files + as.integer(readLines(count))
    if (status != 0L) {
      ended <- ended + 1L
      to <- file.path(crashes, sprintf("session-%d", seed))
      file.copy(file.path(folder, "current.h5"), paste0(to, ".h5"))
      file.copy(file.path(folder, "stderr"), paste0(to, ".txt"))
    }
    others <- list.files(folder, "^foreign-", full.names = TRUE)
    foreign <- foreign + length(others) %/% 2L
    file.copy(others, crashes)
    unlink(folder, recursive = TRUE)
  }
  cat(sprintf("%d damaged files: %d ended their session, %d gave an error of another package\n", files, ended, foreign))
  quit("no", ended + foreign > 0L)
}

args <- commandArgs(TRUE)
if (args[[1L]] == "--session") {
  session(as.integer(args[[2L]]), as.numeric(args[[3L]]), args[[4L]], args[-(1:4)])
} else {
  sources <- list.files(args[-(1:2)], "^[^.]*([.]h5)?$", full.names = TRUE)
  hunt(as.numeric(args[[1L]]), args[[2L]], normalizePath(sources))
}
