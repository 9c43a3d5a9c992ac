# Claim: the matrix of Kendall's tau, parallel over the unbalanced outer loop only, is at least
# 1.9 times as fast on two threads as on one, from n = 100 and d = 10 on.
source("bench/bench.R")
source("bench/threads-common/measure.R")

driver <- open_driver()
rows <- NULL
for (d in c(10, 100)) {
  expect_same_results(driver, "kendall", c(50, d), count = d^2)
  for (n in if (bench_short) c(1e2, 1e3) else c(1e2, 2e2, 5e2, 1e3, 2e3)) {
    rounds <- rounds_for(driver, "kendall", c(n, d))
    rows <- rbind(rows, run_cell(driver, sprintf("Kendall, d = %d, n = %s", d, count_label(n)),
                                 "kendall", c(n, d), rounds))
  }
}
print_peer_aims(rows)
print_aims(rows, "serial", 1 / 1.9)
bench_write("threads-kendall", rows)
