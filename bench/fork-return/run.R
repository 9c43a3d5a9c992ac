# Claim: two children that each return a data frame of 3e7 rows need at most 0.75 of the time of
# bettermc without copy and a tenth of that of mclapply(); a second call of the same size, which
# finds the pages of dropped results, 0.45 of bettermc's. The floor is a C program that only forks,
# writes as many bytes and maps them. In the second cell the columns are summed as well: a mapping
# is cheap as long as nobody reads it.
source("bench/bench.R")
source("bench/fork-common/peers.R")

n <- if (bench_short) 3e6 else 3e7
rounds <- if (bench_short) 3L else 11L
uncopied <- "bettermc::mclapply, no copy"

set.seed(1)
X <- data.frame(x = stats::runif(n), y = rep(c(TRUE, FALSE, FALSE), length.out = n), z = seq_len(n))
return_it <- function(i) X
sum_columns <- function(values) {
  lapply(values, function(value) vapply(value, function(column) sum(as.numeric(column)), 0))
}

map <- regatta_peer()
calls <- c(
  list(regatta = function() map(1:2, return_it)),
  bench_peer(uncopied, "bettermc", function() {
    bettermc::mclapply(1:2, return_it, mc.cores = workers, mc.progress = FALSE,
                       mc.share.copy = FALSE)
  }),
  bench_peer("bettermc::mclapply", "bettermc", function() {
    bettermc::mclapply(1:2, return_it, mc.cores = workers, mc.progress = FALSE)
  }),
  list("parallel::mclapply" = function() parallel::mclapply(1:2, return_it, mc.cores = workers))
)

# regatta.shm_keep is how much of dropped results stays allocated for the next ones. It is read at
# the beginning of a call and holds until the next: with 0 the results that are dropped after this
# tiny one leave nothing behind.
forget_pages <- function() {
  old <- options(regatta.shm_keep = 0)
  on.exit(options(old))
  map(1:2, identity)
  gc(FALSE)
}

# `use` is what is done with the values inside the measured time.
time_fresh <- function(use) {
  forget_pages()
  old <- options(regatta.shm_keep = 0)
  on.exit(options(old))
  bench_elapsed(function() use(calls$regatta()))
}

time_second <- function(use) {
  calls$regatta()
  gc(FALSE)
  bench_elapsed(function() use(calls$regatta()))
}

# The C program, or nothing where there is no compiler or no memfd_create().
build_floor <- function() {
  program <- file.path(tempdir(), "floor")
  compiler <- strsplit(system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"),
                               stdout = TRUE), " ")[[1]]
  source <- file.path("bench", "fork-return", "floor.c")
  log <- tempfile()
  status <- system2(compiler[1], c(compiler[-1], "-O2", "-o", program, source),
                    stdout = log, stderr = log)
  if (status == 0L) return(program)
  cat("skipped: the C program, it cannot be built here\n")
  NULL
}

floor_peers <- function(program) {
  if (is.null(program)) return(list())
  bytes <- n * (8 + 4)
  run <- function(how) {
    words <- c(how, format(bytes, scientific = FALSE))
    function() as.numeric(system2(program, words, stdout = TRUE))
  }
  list("C program, fresh" = run("fresh"), "C program, second" = run("warm"))
}

measure_use <- function(cell, use, more = list()) {
  others <- calls[names(calls) != "regatta"]
  timers <- c(
    list("regatta, fresh" = function() time_fresh(use)),
    list("regatta, second call" = function() time_second(use)),
    lapply(others, function(call) function() bench_elapsed(function() use(call()))),
    more
  )
  yardstick <- if (uncopied %in% names(timers)) uncopied else "parallel::mclapply"
  samples <- bench_measure(timers, rounds, timer = function(peer) peer())
  bench_print(bench_summary(cell, samples, yardstick))
}

bench_same("a data frame from each of two children", calls)
size <- sprintf("two data frames of %s rows", bench_count(n))
returned <- measure_use(size, identity, floor_peers(build_floor()))
rows <- rbind(returned, measure_use(paste0(size, ", then summed"), sum_columns))

cat("\n")
bench_aim("fresh, times bettermc without copy",
          bench_ratio(returned, "regatta, fresh", uncopied), 0.75)
bench_aim("fresh, times mclapply",
          bench_ratio(returned, "regatta, fresh", "parallel::mclapply"), 0.1)
bench_aim("second call, times bettermc without copy",
          bench_ratio(returned, "regatta, second call", uncopied), 0.45)
bench_write("fork-return", rows)
