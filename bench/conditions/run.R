# Claim: 1e3 elements that each signal a message take at most 1.5 of the time of mclapply(), whose messages
# the session never sees, and 1e3 that each print a line 1.2. What is written goes to a file, as it does where
# a script is logged: with regatta each line there has its element before it, and is whole.
source("bench/bench.R")
source("bench/fork-common/peers.R")

n <- 1e3
rounds <- if (bench_short) 5L else 15L
yardstick <- "parallel::mclapply"
control <- regatta::par_control(workers = 2L, progress = FALSE)
tasks <- list(
  "1,000 elements that signal a message" = list(fun = function(i) message("element ", i), limit = 1.5),
  "1,000 elements that print a line" = list(fun = function(i) cat("element", i, "\n"), limit = 1.2)
)

# In a process of its own, whose streams are files: the lines of the peers do not get into those of this one.
# Seconds of one call of each in turns.
arguments <- commandArgs(TRUE)
if ("--child" %in% arguments) {
  fun <- tasks[[as.integer(arguments[[2L]])]]$fun
  peers <- list(
    regatta = function() regatta::par_lapply(seq_len(n), fun, .control = control),
    "parallel::mclapply" = function() parallel::mclapply(seq_len(n), fun, mc.cores = workers)
  )
  saveRDS(bench_measure(peers, rounds), arguments[[3L]])
  quit("no")
}

rows <- NULL
for (k in seq_along(tasks)) {
  result <- tempfile(fileext = ".rds")
  arguments <- c("--vanilla", "bench/conditions/run.R", "--child", k, result, if (bench_short) "--short")
  logs <- tempfile(c("out", "err"))
  status <- system2(file.path(R.home("bin"), "Rscript"), arguments, stdout = logs[[1L]], stderr = logs[[2L]])
  if (status != 0L) stop(paste(c("the process that measures has failed:", readLines(logs[[2L]])), collapse = "\n"))
  cell <- names(tasks)[[k]]
  new <- bench_print(bench_summary(cell, readRDS(result), yardstick))
  bench_aim(cell, bench_ratio(new, "regatta", yardstick), tasks[[k]]$limit)
  rows <- rbind(rows, new)
}
bench_write("conditions", rows)
