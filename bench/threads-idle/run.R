# Claim: threads without work use no CPU. After each peer has run a loop, the CPU time of the whole
# process is read before and after a pause. The first pause still sees what a peer spins after its
# loop, the second should see what the serial loop leaves: the reading itself.
source("bench/bench.R")
source("bench/threads-common/measure.R")

driver <- open_driver()
rounds <- if (bench_short) 3L else 11L

cpu_in_pause <- function() {
  before <- .Call(driver$dll$bench_cpu)
  Sys.sleep(0.25)
  .Call(driver$dll$bench_cpu) - before
}
after_loop <- function(peer) {
  Sys.sleep(settle_seconds)
  time_calls(driver, peer, "empty_inline", 1e6, times = 5L)
  cpu_in_pause()
}
after_pause <- function(peer) {
  after_loop(peer)
  cpu_in_pause()
}

peers <- Filter(function(peer) !is.na(time_calls(driver, peer, "empty_inline", 1e6)), driver$peers)
rows <- rbind(
  cell_rows(driver, "CPU time in the 250 ms after a loop",
            measure_in_turns(peers, rounds, after_loop)),
  cell_rows(driver, "CPU time in the 250 ms after those",
            measure_in_turns(peers, rounds, after_pause)))
cat("\n")
print_aims(rows[grepl("those", rows$cell), ], "serial", noise)
bench_write("threads-idle", rows)
