# Claim: shm_fill() and shm_map() with vectorised R code are not slower on two workers than plain R, from
# 1e7 elements on where the code computes something; the table says from when on. Two programs: the mean of
# two vectors, which plain R does at the speed of memory, and a density of the normal distribution.
source("bench/bench.R")
source("bench/fork-common/peers.R")

sizes <- if (bench_short) c(1e5, 1e6) else c(1e5, 1e6, 1e7, 5e7)
rounds <- if (bench_short) 3L else 7L
control <- regatta::par_control(workers = 2L, progress = FALSE)

rows <- NULL
for (n in sizes) {
  set.seed(1)
  a <- stats::runif(n)
  b <- stats::runif(n)
  shared <- regatta::shm_share(a)
  cells <- list(
    "the mean of two vectors, n = %s" = list(
      regatta = function() regatta::shm_fill(n, function(r) (a[r] + b[r]) / 2, .control = control),
      "plain R" = function() (a + b) / 2
    ),
    "the normal density of a vector by shm_fill(), n = %s" = list(
      regatta = function() regatta::shm_fill(n, function(r) stats::dnorm(a[r]), .control = control),
      "plain R" = function() stats::dnorm(a)
    ),
    "the square root of absolute values by shm_map(), n = %s" = list(
      regatta = function() regatta::shm_map(a, function(v) sqrt(abs(v)), .control = control),
      "plain R" = function() sqrt(abs(a))
    ),
    "the normal density of a vector by shm_map(), n = %s" = list(
      regatta = function() regatta::shm_map(a, stats::dnorm, .control = control),
      "plain R" = function() stats::dnorm(a)
    )
  )
  for (cell in names(cells)) {
    new <- bench_measure(cells[[cell]], rounds)
    rows <- rbind(rows, bench_print(bench_summary(sprintf(cell, bench_count(n)), new, "plain R")))
  }
}
bench_write("shm-vectorised", rows)
