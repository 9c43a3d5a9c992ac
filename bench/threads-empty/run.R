# Claim: an empty parallelFor costs what OpenMP and oneTBB cost, and far less than RcppThread; a
# pushed job costs at most a tenth of RcppThread's; a loop too small to gain stays in the caller.
source("bench/bench.R")
source("bench/threads-common/measure.R")

driver <- open_driver()
rounds <- if (bench_short) 5L else 21L
sizes <- if (bench_short) c(1e3, 1e5) else c(1e2, 1e3, 1e4, 1e5, 1e6)

loops <- lapply(sizes, function(jobs) {
  label <- count_label(jobs)
  rbind(run_cell(driver, paste(label, "empty jobs, inlined"), "empty_inline", jobs, rounds),
        run_cell(driver, paste(label, "empty jobs, std::function"), "empty_function", jobs, rounds))
})
cold <- lapply(c(1e3, 1e4), function(jobs) {
  run_cell(driver, paste(count_label(jobs), "empty jobs, inlined, threads asleep"), "empty_inline",
           jobs, rounds, cold = TRUE)
})
pushed <- lapply(if (bench_short) 1e4 else sizes, function(jobs) {
  run_cell(driver, paste(count_label(jobs), "empty jobs, pushed"), "empty_push", jobs,
           min(rounds, 11L))
})
loops <- do.call(rbind, loops)
cold <- do.call(rbind, cold)
pushed <- do.call(rbind, pushed)

print_peer_aims(rbind(loops, cold))
large <- grepl("^(10,000|100,000|1,000,000) ", loops$cell)
inlined <- grepl("inlined", loops$cell)
print_aims(loops[large & inlined, ], "RcppThread", 1 / 15)
print_aims(loops[large & !inlined, ], "RcppThread", 1 / 4)
print_aims(pushed, "RcppThread", 1 / 10)
bench_write("threads-empty", rbind(loops, cold, pushed))
