# Claim: two children that each return 3e7 strings of which 1e6 are distinct need at most 1/8 of the
# time of bettermc and 1/40 of that of mclapply() until the call returns. The parent has no strings
# by then but makes each of them when it is first read, so the same calls are also timed until every
# string has been read: then it is at most 1/2.5 of bettermc.
source("bench/bench.R")
source("bench/fork-common/peers.R")

n <- if (bench_short) 3e6 else 3e7
distinct <- n / 30
rounds <- 3L

# No result finds the pages of a dropped one.
options(regatta.shm_keep = 0)

set.seed(1)
# All of them are different, which those of runif() are not.
X <- rep(as.character(sample.int(.Machine$integer.max, distinct) / 2^31), 30)
return_it <- function(i) X

read_strings <- function(values) {
  vapply(values, function(x) as.numeric(sum(nchar(x, "bytes"))), 0)
}

map <- regatta_peer()
calls <- c(
  list(regatta = function() map(1:2, return_it)),
  bench_peer("bettermc::mclapply", "bettermc", function() {
    bettermc::mclapply(1:2, return_it, mc.cores = workers, mc.progress = FALSE)
  }),
  list("parallel::mclapply" = function() parallel::mclapply(1:2, return_it, mc.cores = workers))
)

# Two cells of the same calls: until the call returns, and until all strings have been read.
measure_calls <- function(size, calls) {
  bench_same(size, c(list(given = function() list(X, X)), calls))
  read <- NULL
  time_call <- function(name) {
    start <- bench_now()
    values <- calls[[name]]()
    returned <- bench_now() - start
    read_strings(values)
    read[[name]] <<- c(read[[name]], bench_now() - start)
    returned
  }
  names <- stats::setNames(as.list(names(calls)), names(calls))
  # bench_same() has called each of them already.
  returned <- bench_measure(names, rounds, timer = time_call, warm = 0L)
  read <- do.call(cbind, read[names(calls)])
  rbind(
    bench_print(bench_summary(size, returned, "regatta")),
    bench_print(bench_summary(paste0(size, ", then read"), read, "regatta"))
  )
}

size <- sprintf("twice %s strings, %s distinct", bench_count(n), bench_count(distinct))
rows <- measure_calls(size, calls)
# The vector above has its strings in the order in which they were made and lie in memory.
X <- sample(X)
shuffled <- paste0(size, ", shuffled")
rows <- rbind(rows, measure_calls(shuffled, calls[names(calls) != "parallel::mclapply"]))

cat("\n")
aim <- function(cell, peer, limit) {
  ratio <- bench_ratio(rows[rows$cell == cell, ], "regatta", peer)
  bench_aim(sprintf("%s, times %s", cell, peer), ratio, limit)
}
aim(size, "parallel::mclapply", 1 / 40)
for (cell in c(size, shuffled)) {
  aim(cell, "bettermc::mclapply", 1 / 8)
  aim(paste0(cell, ", then read"), "bettermc::mclapply", 1 / 2.5)
}
bench_write("shm-strings", rows)
