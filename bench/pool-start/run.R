# Claim: 64 workers of this machine that stand ready start at least 20 times as fast as those of makePSOCKcluster(), a
# second cluster from the warm server in at most 0.15 of the time of the first, and 16 take at most a fourth of the
# memory with heavy packages loaded.
source("bench/bench.R")
loadNamespace("regatta")

sizes <- if (bench_short) c(2L, 8L) else c(2L, 8L, 32L, 64L)
rounds <- if (bench_short) 2L else 5L

# A peer is list(start, before): what makes the cluster, and what is done before the clock runs. Each is asked once,
# and stopped outside of the measured time.
timer <- function(peer) {
  cluster <- NULL
  on.exit(if (!is.null(cluster)) parallel::stopCluster(cluster))
  if (!is.null(peer$before)) peer$before()
  begun <- bench_now()
  cluster <- peer$start()
  pids <- unlist(parallel::clusterCall(cluster, Sys.getpid))
  ended <- bench_now()
  stopifnot(length(unique(pids)) == length(cluster))
  ended - begun
}
peer <- function(start, before = NULL) list(start = start, before = before)
psock <- function(n, strategy) peer(function() parallel::makePSOCKcluster(n, setup_strategy = strategy))
cold <- function(n) peer(function() regatta::cluster_local(n), function() regatta:::fork_server_stop_all())
warm <- function(n) peer(function() regatta::cluster_local(n), function() parallel::stopCluster(regatta::cluster_local(1L)))

rows <- NULL
add <- function(cell) rows <<- rbind(rows, cell)
fresh <- function(n) sprintf("%d fresh workers, each of which has answered", n)
for (n in sizes) {
  peers <- c(
    list(
      "regatta, first" = cold(n), "regatta, warm" = warm(n), "parallel::makePSOCKcluster" = psock(n, "parallel"),
      "parallel::makePSOCKcluster, sequential" = psock(n, "sequential"),
      "parallel::makeForkCluster" = peer(function() parallel::makeForkCluster(n))
    ),
    bench_peer("parallelly::makeClusterPSOCK", "parallelly", peer(function() {
      parallelly::makeClusterPSOCK(n, setup_strategy = "parallel", autoStop = FALSE)
    })),
    bench_peer("mirai::make_cluster", "mirai", peer(function() mirai::make_cluster(n)))
  )
  # The others need half a minute for a round of 64.
  big <- n > 8L
  add(bench_cell(fresh(n), peers, if (big) 2L else rounds, timer = timer, warm = if (big) 0L else 1L))
}
most <- if (bench_short) 100L else 500L
add(bench_cell(sprintf("%d fresh workers in one session", most), list(regatta = cold(most)), 3L, timer = timer))

# Memory that the workers have for themselves, of shared pages their part (PSS), with packages that take much.
installed <- function(packages) Filter(function(p) nzchar(system.file(package = p)), packages)
heavy <- if (length(installed("sf")) > 0L) "sf" else installed(c("Matrix", "data.table"))
pss <- function(pids) {
  sum(vapply(pids, function(pid) {
    lines <- readLines(file.path("/proc", pid, "smaps_rollup"))
    as.numeric(sub("^Pss: +([0-9]+) kB$", "\\1", grep("^Pss:", lines, value = TRUE)))
  }, 0)) * 1024
}
workers <- if (bench_short) 4L else 16L
memory_of <- function(cluster) {
  on.exit(parallel::stopCluster(cluster))
  parallel::clusterCall(cluster, function(packages) {
    for (p in packages) suppressMessages(library(p, character.only = TRUE))
  }, heavy)
  pss(unlist(parallel::clusterCall(cluster, Sys.getpid)))
}
memory <- c(
  regatta = memory_of(regatta::cluster_local(workers, packages = heavy)),
  "parallel::makePSOCKcluster" = memory_of(parallel::makePSOCKcluster(workers))
)
cell <- sprintf("bytes of memory of %d workers with %s loaded", workers, toString(heavy))
add(bench_summary(cell, matrix(memory, 1L, dimnames = list(NULL, names(memory)))))
cat(sprintf("\n%s: %s\n", cell, paste(names(memory), round(memory), collapse = ", ")))
regatta:::fork_server_stop_all()

seconds <- function(cell, peer) rows$median_s[rows$cell == cell & rows$peer == peer]
aim <- function(what, value, limit) {
  cat(sprintf("aim: %s at most %g: %.3g, %s\n", what, limit, value, if (value <= limit) "met" else "missed"))
}
last <- fresh(max(sizes))
aim("start, of PSOCK's", seconds(last, "regatta, first") / seconds(last, "parallel::makePSOCKcluster"), 1 / 20)
aim("a second cluster, of the first", seconds(last, "regatta, warm") / seconds(last, "regatta, first"), 0.15)
aim("memory, of PSOCK's", memory[[1L]] / memory[[2L]], 1 / 4)
bench_write("pool-start", rows)
