# Claim: in a control group of 2 GB, elements of 0.8 GB on 4 workers all arrive, in order and right, where other
# forked maps lose some of theirs to the OOM killer. Counted are elements, not seconds. Needs a memory cgroup, version
# 1 or 2, that can be made: root.
source("bench/bench.R")
source("bench/fork-common/peers.R")
source("tests/testthat/helper-wait.R")
source("tests/testthat/helper-cgroup.R")

workers <- 4L
elements <- if (bench_short) 4L else 8L
limit <- 2e9

# What each peer runs, in a session of its own: the number of the element, from 0.8 GB of it.
heavy <- function(i) {
  x <- rep(i + 0, 1e8)
  Sys.sleep(0.5)
  mean(range(x[c(1, length(x))]))
}

peers <- c(
  bench_peer("regatta", "regatta", function() {
    regatta::par_lapply(seq_len(elements), heavy, .control = regatta::par_control(workers = workers, progress = FALSE))
  }),
  bench_peer("regatta, not watched", "regatta", function() {
    regatta::par_lapply(seq_len(elements), heavy, .control = regatta::par_control(
      workers = workers, progress = FALSE, memory_budget = Inf, errors = "collect"
    ))
  }),
  bench_peer("parallel::mclapply", "parallel", function() {
    parallel::mclapply(seq_len(elements), heavy, mc.cores = workers)
  }),
  bench_peer("parallel::mclapply, dynamic", "parallel", function() {
    parallel::mclapply(seq_len(elements), heavy, mc.cores = workers, mc.preschedule = FALSE)
  }),
  bench_peer("future::multicore", "future", function() {
    future::plan(future::multicore, workers = workers)
    started <- lapply(seq_len(elements), function(i) future::future(heavy(i)))
    lapply(started, function(one) tryCatch(future::value(one), error = identity))
  }),
  list(lapply = function() lapply(seq_len(elements), heavy))
)

# A child of this script: how many are right and where they belong, and how long that took.
chosen <- Sys.getenv("BENCH_PEER")
if (nzchar(chosen)) {
  took <- system.time(got <- suppressWarnings(tryCatch(peers[[chosen]](), error = function(e) list())))[["elapsed"]]
  right <- vapply(seq_len(elements), function(i) i <= length(got) && identical(got[[i]], as.double(i)), NA)
  cat(sprintf("arrived %d %f\n", sum(right), took))
  quit("no")
}

in_group <- function(peer) {
  group <- local_cgroup(limit)
  script <- c(file.path(R.home("bin"), "Rscript"), "--vanilla", "bench/memory-shortage/run.R", if (bench_short) "--short")
  said <- suppressWarnings(system2("sh", c("-c", shQuote(paste("echo $$ >", group$procs, "&& exec timeout 300",
    paste(shQuote(script), collapse = " ")))), stdout = TRUE,
    env = c(paste0("BENCH_PEER=", shQuote(peer)), paste0("R_LIBS=", paste(.libPaths(), collapse = ":")))))
  line <- grep("^arrived ", said, value = TRUE)
  # The session itself may be the one that was ended.
  if (length(line) == 1L) as.numeric(strsplit(line, " ")[[1L]][-1L]) else c(0, NA)
}

rounds <- if (bench_short) 1L else 2L
got <- lapply(names(peers), function(peer) vapply(seq_len(rounds), function(k) in_group(peer), c(0, 0)))
names(got) <- names(peers)
counts <- vapply(got, function(one) one[1L, ], numeric(rounds))
seconds <- vapply(got, function(one) one[2L, ], numeric(rounds))
counts <- matrix(counts, rounds, dimnames = list(NULL, names(peers)))
seconds <- matrix(seconds, rounds, dimnames = list(NULL, names(peers)))
whole <- colnames(counts)[apply(counts == elements, 2L, all)]
rows <- rbind(
  bench_summary(sprintf("elements of 0.8 GB that arrive, of %d in 2 GB", elements), counts),
  if ("regatta" %in% whole) bench_summary("all of them, where all arrive", seconds[, whole, drop = FALSE])
)
print(rows[c("cell", "peer", "median_s", "min_s", "max_s")], row.names = FALSE)
bench_aim("elements of 0.8 GB that are lost in 2 GB", elements - min(counts[, "regatta"]), 0)
bench_write("memory-shortage", rows)
