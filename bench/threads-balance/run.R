# Claim: whatever the lengths of the units of a loop and their order, two threads need at most 1.1
# times the time that no schedule can beat: half of the work or the longest unit, whichever is more.
# Nothing is said to the loop about its units. Bodies that sleep can be measured on a busy machine;
# the serial loop says by how much longer they sleep than they are asked to.
source("bench/bench.R")
source("bench/threads-common/measure.R")

unit <- 1e-3
one_dear <- function(place) {
  seconds <- rep(c(unit, rep(0, 29)), length.out = 6000)
  seconds[place] <- 30 * unit
  seconds
}
# Pareto's distribution without a variance, cut at 30 ms; what is below 0.2 ms is not slept.
heavy_tail <- function() {
  set.seed(1)
  seconds <- pmin(1e-5 * stats::runif(6000)^-0.8, 30 * unit)
  ifelse(seconds < 2e-4, 0, seconds)
}
loads <- c(
  list("1,057 units of nothing, then 400 of 1 ms" = c(rep(0, 1057), rep(unit, 400)),
       "400 units of 1 ms, then 10,000 of nothing" = c(rep(unit, 400), rep(0, 10000)),
       "100 units of 1 ms in every 2,000" = rep(c(rep(unit, 100), rep(0, 1900)), 4),
       "6,000 units with a heavy tail" = heavy_tail()),
  stats::setNames(lapply(c(1, 34, 1101, 3001, 6000), one_dear),
                  sprintf("200 units of 1 ms among 6,000, and one of 30 ms at %d",
                          c(1L, 34L, 1101L, 3001L, 6000L)))
)
rounds <- if (bench_short) 3L else 9L
settle_seconds <- 0

measure_load <- function(driver, cell, name, seconds) {
  .Call(driver$dll$bench_setup, seconds, 1, 2L)
  timer <- function(peer) time_calls(driver, peer, cell, length(seconds))
  samples <- if (cell == "busy_units") measure_in_turns(driver$peers, rounds, timer) else {
    peers <- stats::setNames(driver$peers, driver$peers)
    bench_measure(peers, rounds, timer, warm = 0L)
  }
  # Units last as long as the serial loop takes for them.
  stretched <- samples[, "serial"] / sum(seconds)
  ideal <- max(sum(seconds) / 2, seconds) * stretched
  rows <- bench_summary(paste0(name, if (cell == "busy_units") ", busy" else ", asleep"),
                        cbind(ideal = ideal, samples), "ideal")
  rows$version <- unname(c(driver$versions, ideal = "")[rows$peer])
  bench_print(rows)
}

driver <- open_driver()
driver$peers <- setdiff(driver$peers, c("std::thread", "R_CheckUserInterrupt", "OpenMP task"))
rows <- NULL
for (cell in c("sleep_units", if (!bench_short) "busy_units")) {
  for (name in names(loads)) rows <- rbind(rows, measure_load(driver, cell, name, loads[[name]]))
}
row.names(rows) <- NULL
cat("\n")
for (cell in split(rows, factor(rows$cell, unique(rows$cell)))) {
  ratio <- cell$times_yardstick[cell$peer == "regatta"]
  cat(sprintf("aim: %s, times ideal, at most 1.1: %.3g, %s\n", cell$cell[[1L]], ratio,
              if (ratio <= 1.1) "met" else "missed"))
}
bench_write("threads-balance", rows)
