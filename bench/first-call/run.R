# Claim: the first call of a fresh session takes at most 40 ms, a script with one small map at most 1.15 of
# the time of one that calls mclapply(), and at most 1.1 of its memory. Scripts are started in turns; the
# first call is timed by the script itself.
source("bench/bench.R")
source("bench/fork-common/peers.R")

rounds <- if (bench_short) 5L else 21L
rscript <- file.path(R.home("bin"), "Rscript")
calls <- c(
  regatta = "regatta::par_lapply(1:4, function(i) i, .control = regatta::par_control(workers = 2L, progress = FALSE))",
  "parallel::mclapply" = "parallel::mclapply(1:4, function(i) i, mc.cores = 2L)"
)
yardstick <- "parallel::mclapply"

# What the script says of itself: c(seconds of the call, peak memory in bytes, processor time of it all).
script <- function(call) {
  c(
    "before <- as.numeric(Sys.time())", paste0("invisible(", call, ")"),
    "after <- as.numeric(Sys.time())", "lines <- readLines('/proc/self/status')",
    "peak <- 1024 * as.numeric(gsub('[^0-9]', '', grep('^VmHWM', lines, value = TRUE)))",
    "cat(after - before, peak, sum(proc.time()[1:2]))"
  )
}
files <- vapply(calls, function(call) {
  file <- tempfile(fileext = ".R")
  writeLines(script(call), file)
  file
}, "")
run <- function(file) as.numeric(strsplit(system2(rscript, c("--vanilla", file), stdout = TRUE), " ")[[1L]])

names <- c("a script with one small map", "its first call", "its memory in GB", "its processor time")
samples <- lapply(names, function(name) matrix(NA_real_, rounds, 2L, dimnames = list(NULL, names(calls))))
for (round in seq_len(rounds)) {
  for (peer in if (round %% 2L) names(calls) else rev(names(calls))) {
    elapsed <- bench_elapsed(function() told <<- run(files[[peer]]))
    values <- c(elapsed, told[[1L]], told[[2L]] / 1e9, told[[3L]])
    for (k in seq_along(values)) samples[[k]][round, peer] <- values[[k]]
  }
}
rows <- do.call(rbind, Map(function(name, sample) {
  bench_print(bench_summary(name, sample, yardstick))
}, names, samples))
ratio <- function(name) bench_ratio(rows[rows$cell == name, ], "regatta", yardstick)
bench_aim("the script, times mclapply()'s", ratio(names[[1L]]), 1.15)
bench_aim("first call in seconds", rows$median_s[rows$cell == names[[2L]] & rows$peer == "regatta"], 0.04)
bench_aim("its memory, times mclapply()'s", ratio(names[[3L]]), 1.1)
bench_write("first-call", rows)
