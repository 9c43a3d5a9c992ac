# Claim: with dynamic balancing, a task costs no more than one of prescheduled mclapply() does, from
# 1e4 tasks on. The tasks do nothing, so that all that is measured is the way there and back; the
# cost of forking is in it, divided by the number of tasks.
source("bench/bench.R")
source("bench/fork-common/peers.R")

empty <- function(i) NULL
yardstick <- "parallel::mclapply, static"
sizes <- if (bench_short) c(1e3, 1e4) else c(1e3, 1e4, 1e5, 1e6)
rounds <- if (bench_short) 5L else 21L
slow_rounds <- if (bench_short) 1L else 3L
# Seconds: longer calls are measured in few rounds only, much longer ones not at all.
slow_call <- 0.5
longest_call <- if (bench_short) 5 else 20

expect_same <- function(peers) {
  calls <- lapply(peers, function(peer) function() peer(1:20, empty))
  bench_same("empty tasks", calls)
}

expected_seconds <- function(peers, n) {
  vapply(peers, function(peer) bench_elapsed(function() peer(seq_len(n), empty)), 0)
}

# The slow peers are measured in turns too, with the yardstick among them. The two that the claim is
# about are never taken for slow.
measure_size <- function(peers, n, expected) {
  X <- seq_len(n)
  per_task <- function(peer) bench_elapsed(function() peer(X, empty)) / n
  cell <- sprintf("one of %s empty tasks", bench_count(n))
  slow <- expected > slow_call & !names(peers) %in% c("regatta", yardstick)
  rows <- bench_summary(cell, bench_measure(peers[!slow], rounds, per_task), yardstick)
  if (any(slow)) {
    turns <- peers[slow | names(peers) == yardstick]
    more <- bench_summary(cell, bench_measure(turns, slow_rounds, per_task, warm = 0L), yardstick)
    rows <- rbind(rows, more[more$peer != yardstick, ])
  }
  bench_print(rows)
}

peers <- open_peers()
expect_same(peers)
rows <- NULL
for (n in sizes) {
  if (is.null(rows)) {
    expected <- expected_seconds(peers, n)
  } else {
    # In proportion to the tasks: too high for a peer whose calls cost more than its tasks.
    last <- rows[rows$cell == rows$cell[nrow(rows)], ]
    expected <- stats::setNames(last$median_s, last$peer)[names(peers)] * n
  }
  left_out <- expected > longest_call
  for (name in names(peers)[left_out]) {
    cat(sprintf("left out of %s tasks: %s would take about %.0f s\n", bench_count(n), name,
                expected[[name]]))
  }
  peers <- peers[!left_out]
  rows <- rbind(rows, measure_size(peers, n, expected[!left_out]))
}
close_peers()

cat("\n")
for (cell in unique(rows$cell)[-1]) {
  ratio <- bench_ratio(rows[rows$cell == cell, ], "regatta", yardstick)
  bench_aim(sprintf("%s, times prescheduled mclapply", cell), ratio, 1)
}
bench_write("fork-empty", rows)
