# The parallel maps that are measured beside par_lapply(): functions of X and FUN with two workers,
# each with its package's own defaults except where its name says otherwise. What forks for every
# call does so inside the measured time; standing workers are started before and stopped after.
#   source("bench/fork-common/peers.R")     after bench/bench.R
#   peers <- open_peers(); ...; close_peers()

workers <- 2L

# Processes that outlive a call, and what ends them.
standing <- new.env()
standing$stop <- list()

open_peers <- function() {
  c(
    list(
      lapply = lapply,
      regatta = regatta_peer(),
      "parallel::mclapply, static" = function(X, FUN) {
        parallel::mclapply(X, FUN, mc.cores = workers)
      },
      "parallel::mclapply, dynamic" = function(X, FUN) {
        parallel::mclapply(X, FUN, mc.cores = workers, mc.preschedule = FALSE)
      },
      "parallel::clusterApplyLB" = cluster_peer()
    ),
    bench_peer("bettermc::mclapply", "bettermc", function(X, FUN) {
      bettermc::mclapply(X, FUN, mc.cores = workers, mc.progress = FALSE)
    }),
    bench_peer("future.apply::future_lapply", c("future.apply", "future"), function(X, FUN) {
      use_multicore()
      future.apply::future_lapply(X, FUN)
    }),
    biocparallel_peers(),
    bench_peer("mirai::mirai_map", "mirai", function(X, FUN) {
      use_daemons()
      unname(mirai::mirai_map(X, FUN)[])
    })
  )
}

close_peers <- function() {
  for (stop_workers in standing$stop) stop_workers()
  standing$stop <- list()
}

regatta_peer <- function() {
  loadNamespace("regatta")
  function(X, FUN) regatta::par_lapply(X, FUN, .control = regatta::par_control(workers = workers))
}

cluster_peer <- function() {
  cluster <- NULL
  function(X, FUN) {
    if (is.null(cluster)) {
      cluster <<- parallel::makeCluster(workers)
      standing$stop$cluster <- function() parallel::stopCluster(cluster)
    }
    parallel::clusterApplyLB(cluster, X, FUN)
  }
}

use_multicore <- function() {
  if (is.null(standing$stop$future)) {
    old <- future::plan(future::multicore, workers = workers)
    standing$stop$future <- function() future::plan(old)
  }
}

# Its default hands every worker one share of X; with as many tasks as elements it balances.
biocparallel_peers <- function() {
  map <- function(tasks) {
    function(X, FUN) {
      param <- BiocParallel::MulticoreParam(workers, tasks = tasks(X))
      BiocParallel::bplapply(X, FUN, BPPARAM = param)
    }
  }
  c(
    bench_peer("BiocParallel::bplapply, static", "BiocParallel", map(function(X) 0L)),
    bench_peer("BiocParallel::bplapply, dynamic", "BiocParallel", map(length))
  )
}

use_daemons <- function() {
  if (is.null(standing$stop$daemons)) {
    mirai::daemons(workers)
    standing$stop$daemons <- function() mirai::daemons(0)
  }
}

# 1e5 as "100,000".
bench_count <- function(n) format(n, big.mark = ",", scientific = FALSE)
