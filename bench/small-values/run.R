# Claim: values that consist of many small objects arrive no later than with mclapply(): they cannot be
# shared, so that it is serialisation on both ways. Four elements that each return a list of 1e5 small lists,
# and twenty that each return 1e5 fresh strings.
source("bench/bench.R")
source("bench/fork-common/peers.R")

size <- if (bench_short) 1e4 else 1e5
rounds <- if (bench_short) 3L else 11L
yardstick <- "parallel::mclapply"
map <- regatta_peer()
lists <- function(i) lapply(seq_len(size), function(k) list(a = k, b = "x"))
strings <- function(i) paste0("string ", i, " of ", seq_len(size))

rows <- NULL
add <- function(cell, X, fun) {
  peers <- list(
    regatta = function() map(X, fun),
    "parallel::mclapply" = function() parallel::mclapply(X, fun, mc.cores = workers)
  )
  new <- bench_cell(cell, peers, rounds, same = TRUE)
  new$times_yardstick <- new$median_s / new$median_s[new$peer == yardstick]
  bench_aim(cell, bench_ratio(new, "regatta", yardstick), 1)
  rows <<- rbind(rows, new)
}
add(sprintf("four lists of %s small lists", bench_count(size)), 1:4, lists)
add(sprintf("twenty times %s fresh strings", bench_count(size)), 1:20, strings)
read <- function(fun) function(X, ...) vapply(fun(X, ...), function(x) sum(nchar(x)), 0)
peers <- list(
  regatta = function() read(map)(1:20, strings),
  "parallel::mclapply" = function() read(parallel::mclapply)(1:20, strings, mc.cores = workers)
)
rows <- rbind(rows, bench_print(bench_summary(
  sprintf("twenty times %s fresh strings, then read", bench_count(size)), bench_measure(peers, rounds), yardstick
)))
bench_write("small-values", rows)
