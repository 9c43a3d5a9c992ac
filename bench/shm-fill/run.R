# Claim: shm_fill() of 1e9 bytes with R code is at least 1.8 times as fast with two workers as with
# one where an element takes some work; with a function that calls C it needs at most 1.25 of the
# time of a C loop on two threads where it takes hardly any; and it needs the memory of one output
# array. The two programs are the average of two arrays of bytes and the average of 11-wide averages
# of both, at the ends of the arrays over as many as there are.
source("bench/bench.R")
source("bench/fork-common/peers.R")
source("bench/shm-common/compile.R")
source("bench/shm-common/memory.R")

n <- if (bench_short) 1e8 else 1e9
code <- load_c(file.path("bench", "shm-fill", "loops.c"), "-O3")
# Looked up once: R keeps a list of what it has ever looked up, and walks through it every time.
bench_loop <- code$bench_loop
bench_range <- code$bench_range

set.seed(1)
random_bytes <- function(period) rep_len(as.raw(sample.int(256L, period, TRUE) - 1L), n)
A <- random_bytes(1e6)
B <- random_bytes(999983)

# Each is a function of two arrays and gives a function of a range of positions.
average <- function(a, b) {
  function(range) as.raw((as.integer(a[range]) + as.integer(b[range])) %/% 2L)
}
average_windows <- function(a, b) {
  n <- length(a)
  window_average <- function(x, range) {
    left <- max(1L, range[[1L]] - 5L)
    right <- min(n, range[[length(range)]] + 5L)
    sums <- c(0L, cumsum(as.integer(x[left:right])))
    # Away from the ends all windows have 11 elements.
    if (right - left == length(range) + 9L) {
      return((sums[12:length(sums)] - sums[seq_along(range)]) %/% 11L)
    }
    first <- pmax(1L, range - 5L)
    last <- pmin(n, range + 5L)
    (sums[last - left + 2L] - sums[first - left + 1L]) %/% (last - first + 1L)
  }
  function(range) as.raw((window_average(a, range) + window_average(b, range)) %/% 2L)
}
in_c <- function(program) {
  function(a, b) function(range) .Call(bench_range, a, b, program, range)
}

# Blocks of the size that shm_fill() takes.
fill_sequentially <- function(n, f, block = 2^18) {
  out <- raw(n)
  for (start in seq(1, n, by = block)) {
    range <- as.integer(start):as.integer(min(n, start + block - 1))
    out[range] <- f(range)
  }
  out
}

filled_by <- function(workers) {
  control <- regatta::par_control(workers = workers)
  function(n, f) regatta::shm_fill(n, f, "raw", .control = control)
}

# Functions without arguments, each of which makes the whole output of `program` for a and b.
peers_of <- function(program, in_r, a, b) {
  n <- length(a)
  fill <- function(workers, f) function() filled_by(workers)(n, f(a, b))
  loop <- function(threads) function() .Call(bench_loop, a, b, program, threads)
  list(
    "regatta, R code, 2 workers" = fill(2L, in_r),
    "regatta, R code, 1 worker" = fill(1L, in_r),
    "regatta, calling C, 2 workers" = fill(2L, in_c(program)),
    "regatta, calling C, 1 worker" = fill(1L, in_c(program)),
    "sequential, R code" = function() fill_sequentially(n, in_r(a, b)),
    "C loop, 2 threads" = loop(2L),
    "C loop, 1 thread" = loop(1L)
  )
}

as_plain <- function(x) if (inherits(x, "shm_array")) regatta::shm_copy(x) else x
compare <- function(cell, peers) bench_same(cell, lapply(peers, function(f) function() as_plain(f())))

# All peers are compared on the first 3e6 bytes, those in C on all.
measure_program <- function(cell, program, in_r, rounds) {
  some <- seq_len(3e6)
  compare(cell, peers_of(program, in_r, A[some], B[some]))
  peers <- peers_of(program, in_r, A, B)
  compare(cell, peers[c("C loop, 2 threads", "regatta, calling C, 2 workers")])
  gc(FALSE)
  bench_print(bench_summary(cell, bench_measure(peers, rounds, warm = 0L), "C loop, 2 threads"))
}

# The memory that a call takes at its peak, its result included, in output arrays.
measure_memory <- function(call) {
  gc(FALSE)
  before <- process_memory(Sys.getpid())
  result <- NULL
  peak <- peak_memory(function() result <<- call())
  (peak - before) / n
}

size <- bench_count(n)
first <- measure_program(sprintf("average of two arrays of %s bytes", size), "average", average,
                         if (bench_short) 2L else 3L)
second <- measure_program(sprintf("average of 11-wide averages of two arrays of %s bytes", size),
                          "average_windows", average_windows, 2L)

calls <- peers_of("average_windows", average_windows, A, B)
memory <- vapply(calls[c("regatta, R code, 2 workers", "regatta, calling C, 2 workers",
                         "sequential, R code")], measure_memory, 0)
cat("\nmemory at the peak of the second, in output arrays\n")
cat(sprintf("  %-*s %.3g\n", max(nchar(names(memory))), names(memory), memory), sep = "")

cat("\n")
bench_aim("second, R code, 2 workers, times 1 worker",
          bench_ratio(second, "regatta, R code, 2 workers", "regatta, R code, 1 worker"), 1 / 1.8)
bench_aim("second, calling C, 2 workers, times 1 worker",
          bench_ratio(second, "regatta, calling C, 2 workers", "regatta, calling C, 1 worker"),
          1 / 1.8)
bench_aim("first, calling C, times C loop on 2 threads",
          bench_ratio(first, "regatta, calling C, 2 workers", "C loop, 2 threads"), 1.25)
for (peer in grep("^regatta", names(memory), value = TRUE)) {
  bench_aim(sprintf("second, output arrays in memory, %s", sub("^regatta, ", "", peer)),
            memory[[peer]], 1.1)
}
bench_write("shm-fill", rbind(first, second))
