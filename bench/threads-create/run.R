# Claim: creating, joining and destroying a Thread costs what a std::thread costs.
source("bench/bench.R")
source("bench/threads-common/measure.R")

driver <- open_driver()
rounds <- if (bench_short) 5L else 21L
counts <- if (bench_short) c(1, 8) else c(1, 2, 4, 8, 16, 32, 64)
rows <- lapply(counts, function(count) {
  name <- paste(count, if (count == 1) "thread" else "threads", "made, joined and destroyed")
  run_cell(driver, name, "create", count, rounds)
})
rows <- do.call(rbind, rows)
print_peer_aims(rows)
bench_write("threads-create", rows)
