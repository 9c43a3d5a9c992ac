# Claim: checkUserInterrupt() costs nanoseconds, on the main thread and on any other. Beside it
# stands R's own R_CheckUserInterrupt(), which only the main thread may call.
source("bench/bench.R")
source("bench/threads-common/measure.R")

driver <- open_driver()
rounds <- if (bench_short) 5L else 21L
checks <- 1e5
rows <- rbind(
  run_cell(driver, "one interrupt check, main thread", "check_main", checks, rounds, per = checks),
  run_cell(driver, "one interrupt check, child thread", "check_child", checks, rounds,
           per = checks))
print_peer_aims(rows)
bench_write("threads-check", rows)
