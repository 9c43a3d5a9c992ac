# Claim: what a call costs that computes nothing is at most 1.1 of what mclapply() takes in a session of
# 2 GB and of 6 GB, and 1.2 in a small one; two data frames of 2e7 rows arrive in at most 1.25 of the time
# of their elements; 128 workers on few processors cost no more than with mclapply(). What is measured is
# forking, the first elements of a fresh process, and what the call waits for at its end. Processor time is
# that of the session and of all workers, those that end after the call included.
source("bench/bench.R")
source("bench/fork-common/peers.R")

rounds <- if (bench_short) 5L else 21L
gigabytes <- if (bench_short) c(0.5, 1) else c(2, 6)
frame_rows <- if (bench_short) 2e6 else 2e7
many <- if (bench_short) 16L else 128L
many_tasks <- if (bench_short) 1e4 else 1e5
yardstick <- "parallel::mclapply"
empty <- function(i) NULL
control <- function(workers) regatta::par_control(workers = workers, progress = FALSE)

maps <- function(n, workers = 2L) {
  own <- control(workers)
  list(
    regatta = function() regatta::par_lapply(seq_len(n), empty, .control = own),
    "parallel::mclapply" = function() parallel::mclapply(seq_len(n), empty, mc.cores = workers)
  )
}

# Until all that it has started has been collected, which is when the system counts it.
processor_time <- function(fun) {
  before <- sum(proc.time()[-3L])
  fun()
  until <- bench_now() + 20
  children <- sprintf("/proc/%1$d/task/%1$d/children", Sys.getpid())
  while (bench_now() < until && length(scan(children, quiet = TRUE)) > 0L) Sys.sleep(0.01)
  sum(proc.time()[-3L]) - before
}

rows <- NULL
add <- function(cell, peers, limit, rounds, processor = TRUE) {
  bench_same(cell, peers)
  new <- bench_print(bench_summary(cell, bench_measure(peers, rounds), yardstick))
  bench_aim(cell, bench_ratio(new, "regatta", yardstick), limit)
  rows <<- rbind(rows, new)
  if (processor) {
    ten <- lapply(peers, function(peer) function() for (k in 1:10) peer())
    cell <- paste0("ten times ", cell, ", processor time")
    new <- bench_summary(cell, bench_measure(ten, 5L, processor_time, warm = 0L), yardstick)
    rows <<- rbind(rows, bench_print(new))
  }
}

add("10 empty tasks", maps(10), 1.2, rounds)
add(sprintf("%s empty tasks on %d workers", bench_count(many_tasks), many), maps(many_tasks, many), 1, 5L, FALSE)

# The time that the elements take is that of the longer one, as the record of the run has it.
frames <- function() {
  make <- function(i) data.frame(x = stats::runif(frame_rows), y = seq_len(frame_rows))
  call <- function() regatta::par_lapply(1:2, make, .control = control(2L))
  elements <- function() {
    record <- regatta::par_last()$elements
    max(record$end - record$start)
  }
  samples <- matrix(NA_real_, 7L, 2L, dimnames = list(NULL, c("regatta", "the elements themselves")))
  for (round in seq_len(nrow(samples))) {
    gc(FALSE)
    samples[round, 1L] <- bench_elapsed(call)
    samples[round, 2L] <- elements()
  }
  cell <- sprintf("two data frames of %s rows", bench_count(frame_rows))
  new <- bench_print(bench_summary(cell, samples, "the elements themselves"))
  bench_aim(cell, bench_ratio(new, "regatta", "the elements themselves"), 1.25)
  rows <<- rbind(rows, new)
}
frames()

# Pages of ordinary size, each of which the session has written to: that is what a fork copies the tables of.
held <- list()
for (size in gigabytes) {
  while (sum(lengths(held)) * 8 < size * 1e9) {
    x <- numeric(0.5e9 / 8)
    x[] <- 1
    held[[length(held) + 1L]] <- x
  }
  add(sprintf("4 empty tasks in a session of %g GB", size), maps(4), 1.1, if (size > 3) 7L else rounds)
  if (size == gigabytes[[1L]]) {
    cell <- sprintf("starting %d workers in a session of %g GB", many, size)
    add(cell, maps(many, many), 1.1, 3L, FALSE)
  }
}
bench_write("call-costs", rows)
