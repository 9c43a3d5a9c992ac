# Claim: handing 500 MB to the 4 workers of a cluster takes at most 1/15 of the time of
# clusterExport() when the object is put in shared memory for it, and 1/1000 once it stands there;
# and all workers together need at most 1.1 more copies of the data. Both ways call clusterExport():
# with the matrix, or with what shm_share() makes of it. In further cells every worker sums the
# columns as well: what a handle leads to is mapped when it is first read. The last cell is a map
# whose function has captured the ordinary matrix: regatta shares it by itself.
source("bench/bench.R")
source("bench/fork-common/peers.R")
source("bench/shm-common/memory.R")

bytes <- if (bench_short) 5e7 else 5e8
nodes <- 4L
rounds <- if (bench_short) 3L else 5L

set.seed(1)
X <- matrix(stats::runif(bytes / 8), ncol = 100)
standing_share <- regatta::shm_share(X)

cluster <- parallel::makeCluster(nodes)
invisible(parallel::clusterCall(cluster, function(paths) {
  .libPaths(paths)
  loadNamespace("regatta")
  NULL
}, .libPaths()))
pids <- c(Sys.getpid(), unlist(parallel::clusterCall(cluster, Sys.getpid)))

# Under the name `data` on every worker.
export <- function(x) {
  space <- new.env()
  space$data <- x
  parallel::clusterExport(cluster, "data", space)
}
drop_export <- function() {
  parallel::clusterEvalQ(cluster, {
    rm(list = intersect("data", ls(globalenv())), envir = globalenv())
    gc(FALSE)
    NULL
  })
  gc(FALSE)
}
sum_columns <- function() parallel::clusterEvalQ(cluster, colSums(data))

hand_over <- list(
  copied = function() export(regatta::shm_share(X)),
  shared = function() export(standing_share),
  parallel = function() export(X)
)

wanted <- rep(list(colSums(X)), nodes)
for (name in names(hand_over)) {
  hand_over[[name]]()
  if (!identical(sum_columns(), wanted)) stop("the workers have not got the data: ", name)
  drop_export()
}

# Two cells of the same samples: regatta with the copy to shared memory and without.
measure_use <- function(cell, use) {
  time_it <- function(peer) {
    drop_export()
    bench_elapsed(function() {
      peer()
      use()
    })
  }
  samples <- bench_measure(hand_over, rounds, timer = time_it, warm = 0L)
  drop_export()
  print_pair <- function(cell, ours) {
    pair <- samples[, c(ours, "parallel"), drop = FALSE]
    colnames(pair) <- c("regatta", "parallel::clusterExport")
    bench_print(bench_summary(cell, pair, "regatta"))
  }
  rbind(print_pair(cell, "copied"), print_pair(paste0(cell, ", shared before"), "shared"))
}

# Copies of the data that the parent and the workers have more than before, when all have read it.
extra_copies <- function(name) {
  drop_export()
  before <- process_memory(pids)
  hand_over[[name]]()
  sum_columns()
  # The buffers of the transfer are garbage by now.
  parallel::clusterEvalQ(cluster, {
    gc(FALSE)
    NULL
  })
  gc(FALSE)
  extra <- (process_memory(pids) - before) / bytes
  drop_export()
  extra
}

size <- sprintf("%.0f MB to %d workers", bytes / 1e6, nodes)
handed <- measure_use(size, function() NULL)
rows <- rbind(handed, measure_use(paste0(size, ", then summed"), sum_columns))

use <- local({
  data <- X
  function(k) colSums(data[, 10 * k + 1:10])
})
maps <- list(
  regatta = function() regatta::par_lapply(seq_len(nodes), use, .on = cluster),
  "parallel::parLapply" = function() parallel::parLapply(cluster, seq_len(nodes), use)
)
captured <- sprintf("map on %d workers of a function with %.0f MB", nodes, bytes / 1e6)
bench_same(captured, maps)
mapped <- bench_print(bench_summary(captured, bench_measure(maps, rounds), "regatta"))
rows <- rbind(rows, mapped)

# Nothing may stand in shared memory yet.
rm(standing_share)
invisible(drop_export())
more <- vapply(c(regatta = "copied", "parallel::clusterExport" = "parallel"), extra_copies, 0)
cat("\nmemory of the parent and the workers when all have read the data, in copies of them\n")
cat(sprintf("  %-*s %.3g more than before\n", max(nchar(names(more))), names(more), more), sep = "")
parallel::stopCluster(cluster)

cat("\n")
in_cell <- function(cell) handed[handed$cell == cell, ]
bench_aim("copied and handed over, times clusterExport",
          bench_ratio(in_cell(size), "regatta", "parallel::clusterExport"), 1 / 15)
bench_aim("shared before, times clusterExport",
          bench_ratio(in_cell(paste0(size, ", shared before")), "regatta",
                      "parallel::clusterExport"), 1 / 1000)
bench_aim("captured by the function of a map, times parLapply",
          bench_ratio(mapped, "regatta", "parallel::parLapply"), 1 / 8)
bench_aim("more copies of the data", more[["regatta"]], 1.1)
bench_write("shm-broadcast", rows)
