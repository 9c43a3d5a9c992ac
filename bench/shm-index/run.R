# Claim: the index of the distinct strings of a vector, which is what a returned character vector
# costs most, takes at most 0.65 of the time of bettermc::char_map(). Each peer makes the distinct
# strings and, for each element, the number of its string.
source("bench/bench.R")
source("bench/fork-common/peers.R")
source("bench/shm-common/compile.R")

n <- if (bench_short) 3e6 else 3e7
distinct <- n / 30
rounds <- 5L

code <- load_c(c(file.path("bench", "shm-index", "index.c"),
                 file.path("src", c("string-index.c", "string-index.h"))))
bench_index <- code$bench_index

peers <- c(
  list("regatta, index in C" = function(x) .Call(bench_index, x)),
  if ("char_map" %in% getNamespaceExports("regatta")) {
    list("regatta, char_map()" = function(x) getExportedValue("regatta", "char_map")(x))
  },
  bench_peer("bettermc::char_map", "bettermc", function(x) bettermc::char_map(x)),
  list("base::unique() and match()" = function(x) {
    chars <- unique(x)
    list(chars, match(x, chars))
  })
)

measure_index <- function(cell, x) {
  calls <- lapply(peers, function(peer) function() peer(x))
  for (name in names(calls)) {
    found <- calls[[name]]()
    sound <- identical(found[[1]][found[[2]]], x) && anyDuplicated(found[[1]]) == 0L
    if (!sound) stop(sprintf("%s: the result of %s does not give the strings", cell, name))
  }
  samples <- bench_measure(calls, rounds, warm = 0L)
  bench_print(bench_summary(cell, samples, "regatta, index in C"))
}

size <- sprintf("%s strings, %s distinct", bench_count(n), bench_count(distinct))
set.seed(1)
X <- rep(as.character(sample.int(.Machine$integer.max, distinct) / 2^31), 30)
rows <- measure_index(size, X)
X <- sample(X)
rows <- rbind(rows, measure_index(paste0(size, ", shuffled"), X))

cat("\n")
for (cell in unique(rows$cell)) {
  for (peer in grep("^regatta", names(peers), value = TRUE)) {
    bench_aim(sprintf("%s, %s, times char_map of bettermc", cell, peer),
              bench_ratio(rows[rows$cell == cell, ], peer, "bettermc::char_map"), 0.65)
  }
}
bench_write("shm-index", rows)
