# What the benchmarks of R calls share: measuring in turns in one process, printing, writing.
#   source("bench/bench.R")     from the root of the tree
#   rows <- bench_cell("1e4 empty tasks", list(lapply = function() ..., regatta = function() ...))
#   bench_write("map-cost", rows)
# bench/results/<claim>.csv has one row per cell and peer; bench/README-table.R reads those.
# `--short` on the command line asks for few rounds, and for sizes that a claim chooses itself.

bench_short <- "--short" %in% commandArgs(TRUE)

# list(name = fun) if all `packages` are installed; otherwise says so by name and returns nothing,
# so that peers are put together with c().
bench_peer <- function(name, packages, fun) {
  have <- vapply(packages, requireNamespace, NA, quietly = TRUE)
  if (all(have)) return(stats::setNames(list(fun), name))
  cat(sprintf("skipped: %s, not installed: %s\n", name, toString(packages[!have])))
  list()
}

# The version of the package that a peer's name starts with: "parallel::mclapply, static".
bench_version <- function(peer) {
  package <- sub("[^A-Za-z0-9.].*$", "", peer)
  if (package %in% c("lapply", "sequential")) package <- "base"
  if (!nzchar(package) || !nzchar(system.file(package = package))) return("")
  as.character(utils::packageVersion(package))
}

bench_elapsed <- function(fun) {
  start <- bench_now()
  fun()
  bench_now() - start
}

# proc.time() counts whole milliseconds; the clock behind Sys.time() counts finer.
bench_now <- function() as.numeric(Sys.time())

# Seconds of each peer, one row per round. Every round runs each peer once, in an order that
# rotates, so that a busy moment of the machine falls on all alike; the garbage of one peer is
# collected before the next one is timed. `timer` takes a peer and returns its seconds.
bench_measure <- function(peers, rounds, timer = bench_elapsed, warm = 1L) {
  for (round in seq_len(warm)) for (peer in peers) timer(peer)
  samples <- matrix(NA_real_, rounds, length(peers), dimnames = list(NULL, names(peers)))
  for (round in seq_len(rounds)) {
    turns <- (seq_along(peers) + round - 2L) %% length(peers) + 1L
    for (turn in turns) {
      gc(FALSE)
      samples[round, turn] <- timer(peers[[turn]])
    }
  }
  samples
}

# The quickest, slowest and middle sample of each peer, and how many times the time of `yardstick`,
# the first peer if not given, that is.
bench_summary <- function(cell, samples, yardstick = colnames(samples)[1]) {
  centre <- apply(samples, 2L, stats::median)
  data.frame(
    cell = cell,
    peer = colnames(samples),
    version = vapply(colnames(samples), bench_version, ""),
    median_s = centre,
    min_s = apply(samples, 2L, min),
    max_s = apply(samples, 2L, max),
    samples = nrow(samples),
    times_yardstick = centre / centre[[yardstick]],
    row.names = NULL
  )
}

bench_seconds <- function(seconds) {
  unit <- ifelse(seconds < 1e-6, "ns", ifelse(seconds < 1e-3, "us", ifelse(seconds < 1, "ms", "s")))
  scaled <- seconds * c(ns = 1e9, us = 1e6, ms = 1e3, s = 1)[unit]
  paste(formatC(signif(scaled, 3L), digits = 3L, format = "g"), unit)
}

bench_print <- function(rows) {
  cat("\n", rows$cell[[1]], "\n", sep = "")
  cat(sprintf(
    "  %-*s %9s  (%s to %s)  %.3g\n", max(nchar(rows$peer)), rows$peer,
    bench_seconds(rows$median_s), bench_seconds(rows$min_s), bench_seconds(rows$max_s),
    rows$times_yardstick
  ), sep = "")
  invisible(rows)
}

# Measures, prints and returns one cell. With `same = TRUE` the values of all peers must be
# identical to those of the first: a peer that is fast because it left something out must not win.
bench_cell <- function(cell, peers, rounds = if (bench_short) 3L else 11L, same = FALSE, ...) {
  if (same) bench_same(cell, peers)
  bench_print(bench_summary(cell, bench_measure(peers, rounds, ...)))
}

bench_same <- function(cell, peers) {
  wanted <- peers[[1]]()
  for (name in names(peers)[-1]) {
    if (!identical(peers[[name]](), wanted)) {
      stop(sprintf("%s: the values of %s differ from those of %s", cell, name, names(peers)[1]))
    }
  }
}

# Says how far a result is from its aim, a ratio that is not to be exceeded.
bench_aim <- function(what, ratio, limit) {
  verdict <- if (is.na(ratio)) "not measured" else if (ratio <= limit) "met" else "missed"
  cat(sprintf("aim: %s at most %g: %.3g, %s\n", what, limit, ratio, verdict))
}

# How many times the time of `other` a peer takes; NA if either was not measured.
bench_ratio <- function(rows, peer, other) {
  centre <- stats::setNames(rows$median_s, rows$peer)
  unname(centre[peer] / centre[other])
}

bench_write <- function(claim, rows, folder = file.path("bench", "results")) {
  dir.create(folder, showWarnings = FALSE)
  number <- vapply(rows, is.double, NA)
  rows[number] <- lapply(rows[number], signif, digits = 4L)
  file <- file.path(folder, paste0(claim, if (bench_short) "-short", ".csv"))
  utils::write.csv(rows, file, row.names = FALSE)
  cat("written: ", file, "\n", sep = "")
  invisible(rows)
}
