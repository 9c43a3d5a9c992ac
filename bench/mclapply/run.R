# Claim: the calls that the README of bettermc measures are faster with the function of the same name
# here, in every row; those that return strings 3 times, and an empty task is 20 times cheaper.
source("bench/bench.R")
source("bench/fork-common/peers.R")

n <- if (bench_short) 3e6 else 3e7
rounds <- if (bench_short) 3L else 5L
theirs <- "bettermc::mclapply"
loadNamespace("regatta")

# The same call of the three functions; parallel's takes no arguments of bettermc.
variants <- function(X, FUN, ..., parallel = FALSE) {
  c(
    list("regatta::mclapply" = function() {
      regatta::mclapply(X, FUN, mc.cores = workers, mc.progress = FALSE, ...)
    }),
    bench_peer(theirs, "bettermc", function() {
      bettermc::mclapply(X, FUN, mc.cores = workers, mc.progress = FALSE, ...)
    }),
    if (parallel) {
      list("parallel::mclapply" = function() parallel::mclapply(X, FUN, mc.cores = workers))
    }
  )
}

measure <- function(cell, calls, times = rounds) {
  gc(FALSE)
  bench_cell(cell, calls, times, same = TRUE, warm = 0L)
}

set.seed(1)
frame <- data.frame(x = stats::runif(n), y = rep(c(TRUE, FALSE, FALSE), length.out = n), z = seq_len(n))
return_frame <- function(i) frame
rows <- rbind(
  measure("two data frames, mc.share.copy = FALSE",
          variants(1:2, return_frame, mc.share.copy = FALSE)),
  measure("two data frames, by default", variants(1:2, return_frame, parallel = TRUE)),
  measure("two data frames, mc.share.vectors = FALSE",
          variants(1:2, return_frame, mc.share.vectors = FALSE)),
  measure("two data frames, mc.shm.ipc = FALSE as well",
          variants(1:2, return_frame, mc.share.vectors = FALSE, mc.shm.ipc = FALSE))
)
rm(frame)

strings <- rep(as.character(stats::runif(n / 30)), 30)
return_strings <- function(i) strings
text <- rbind(
  measure("two character vectors, by default", variants(1:2, return_strings), 3L),
  measure("the index of a character vector", c(
    list("regatta::char_map" = function() length(regatta::char_map(strings)$chars)),
    bench_peer("bettermc::char_map", "bettermc", function() length(bettermc::char_map(strings)$chars)),
    list("base::unique() and match()" = function() {
      chars <- unique(strings)
      length(chars) + 0L * length(match(strings, chars))
    })
  ), 3L)
)
rm(strings)
empty <- measure("1e4 empty tasks", variants(seq_len(1e4), function(i) NULL, parallel = TRUE), 3L)

cat("\n")
aim <- function(cells, limit) {
  for (cell in unique(cells$cell)) {
    at <- cells[cells$cell == cell, ]
    ours <- at$peer[startsWith(at$peer, "regatta::")]
    other <- at$peer[startsWith(at$peer, "bettermc::")]
    if (length(other)) {
      bench_aim(sprintf("%s, times %s", cell, other), bench_ratio(at, ours, other), limit)
    }
  }
}
aim(rows, 1)
aim(text[grepl("vectors", text$cell), ], 1 / 3)
aim(text[grepl("index", text$cell), ], 0.65)
aim(empty, 1 / 20)
bench_write("mclapply", rbind(rows, text, empty))
