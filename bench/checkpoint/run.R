# Claim: a checkpoint costs less than 5 % of a map of elements of 1 ms, keys, records and the disk included. The same
# map without one is measured in turns with it; each time the folder is new.
source("bench/bench.R")
source("bench/fork-common/peers.R")

rounds <- if (bench_short) 9L else 31L
n <- if (bench_short) 1000L else 4000L
yardstick <- "regatta without"
# An element is a loop that was measured to take a millisecond.
loops <- local({
  turns <- 1e6
  work <- function(turns) {
    x <- 0
    for (k in seq_len(turns)) x <- x + k * 0.5
    x
  }
  work(1e4)
  seconds <- min(vapply(1:5, function(i) bench_elapsed(function() work(turns)), 0))
  round(turns * 1e-3 / seconds)
})
element <- function(i, loops, large) {
  x <- 0
  for (k in seq_len(loops)) x <- x + k * 0.5
  if (large) rep(x, 1000) else x
}

folders <- tempfile("checkpoint-")
call <- function(workers, large, keep) {
  force(large)
  function() {
    unlink(folders, recursive = TRUE)
    regatta::par_lapply(seq_len(n), element, loops = loops, large = large, .control = regatta::par_control(
      workers = workers, progress = FALSE, seed = 1L, checkpoint = if (keep) folders
    ))
  }
}

rows <- NULL
for (workers in 1:2) {
  for (large in c(FALSE, TRUE)) {
    cell <- sprintf("%s elements of 1 ms with values of %s, %d worker%s", bench_count(n),
      if (large) "8 kB" else "8 bytes", workers, if (workers == 1L) "" else "s")
    peers <- stats::setNames(
      list(call(workers, large, TRUE), call(workers, large, FALSE)), c("regatta with a checkpoint", yardstick)
    )
    bench_same(cell, peers)
    new <- bench_print(bench_summary(cell, bench_measure(peers, rounds), yardstick))
    bench_aim(cell, bench_ratio(new, "regatta with a checkpoint", yardstick), 1.05)
    rows <- rbind(rows, new)
  }
}
unlink(folders, recursive = TRUE)
bench_write("checkpoint", rows)
