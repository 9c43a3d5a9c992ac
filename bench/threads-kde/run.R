# Claim: kernel density estimates of d variables on 500 grid points, parallel over the variables,
# take as long as with the fastest peer.
source("bench/bench.R")
source("bench/threads-common/measure.R")

driver <- open_driver()
rows <- NULL
for (d in c(10, 100)) {
  expect_same_results(driver, "kde", c(50, d), count = 500 * d)
  for (n in if (bench_short) c(1e2, 1e3) else c(1e2, 3e2, 1e3, 3e3, 1e4)) {
    rounds <- rounds_for(driver, "kde", c(n, d))
    rows <- rbind(rows, run_cell(driver, sprintf("KDE, d = %d, n = %s", d, count_label(n)), "kde",
                                 c(n, d), rounds))
  }
}
print_peer_aims(rows)
bench_write("threads-kde", rows)
