# Claim: an element that fails costs no more than a few elements that do not, however many of them do, and
# without a dump. All elements fail with an error of the same kind; what is measured is describing the
# error in the worker, and its condition in the session.
source("bench/bench.R")
source("bench/fork-common/peers.R")

sizes <- if (bench_short) c(1e3, 1e4) else c(1e4, 1e5)
rounds <- if (bench_short) 1L else 3L
control <- regatta::par_control(
  workers = 2L, progress = FALSE, errors = "collect", dump = "no", seed = 1L
)
works <- function(i) NULL
fails <- function(i) stop("no")

calls <- list(
  `regatta, good` = function(n) regatta::par_lapply(seq_len(n), works, .control = control),
  `regatta, failing` = function(n) {
    suppressWarnings(regatta::par_lapply(seq_len(n), fails, .control = control))
  }
)
stopifnot(length(regatta::par_failed(calls[["regatta, failing"]](20L))) == 20L)

rows <- NULL
for (n in sizes) {
  cell <- sprintf("one of %s elements", bench_count(n))
  per_element <- function(call) bench_elapsed(function() call(n)) / n
  rows <- rbind(rows, bench_print(
    bench_summary(cell, bench_measure(calls, rounds, per_element), "regatta, good")
  ))
}
for (cell in unique(rows$cell)) {
  ratio <- bench_ratio(rows[rows$cell == cell, ], "regatta, failing", "regatta, good")
  bench_aim(sprintf("%s, failing, times good", cell), ratio, 5)
}
bench_write("failures", rows)
