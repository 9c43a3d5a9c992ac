# Claim: whatever the lengths of the tasks and their order, two workers need at most 1.03 times the
# time that no schedule can beat: half of the work or the longest task, whichever is more. The call
# is the very same as in bench/fork-empty.
source("bench/bench.R")
source("bench/fork-common/peers.R")

# Busy for so many seconds: a sleeping task would not notice a parent that takes its processor.
spin <- function(seconds) {
  end <- as.numeric(Sys.time()) + seconds
  while (as.numeric(Sys.time()) < end) NULL
  NULL
}

loads <- list(
  "200 tasks falling from 50 to 1 ms" = seq(50, 1, length.out = 200) / 1000,
  "200 tasks of 40 and 2 ms in turn" = rep(c(40, 2), 100) / 1000,
  "one of 1.5 s before 199 of 10 ms" = c(1.5, rep(0.01, 199))
)
rounds <- if (bench_short) 1L else 5L

measure_load <- function(cell, seconds, peers) {
  ideal <- max(sum(seconds) / workers, seconds)
  calls <- lapply(peers, function(peer) function() peer(seconds, spin))
  samples <- cbind(ideal = ideal, bench_measure(calls, rounds, warm = 0L))
  bench_print(bench_summary(cell, samples, "ideal"))
}

peers <- open_peers()
# One short call each, so that standing workers are up before anything is timed.
for (peer in peers) peer(rep(0, 4), spin)
rows <- do.call(rbind, Map(measure_load, names(loads), loads, MoreArgs = list(peers)))
row.names(rows) <- NULL
close_peers()

cat("\n")
for (cell in unique(rows$cell)) {
  ratio <- bench_ratio(rows[rows$cell == cell, ], "regatta", "ideal")
  bench_aim(sprintf("%s, times ideal", cell), ratio, 1.03)
}
bench_write("fork-unbalanced", rows)
