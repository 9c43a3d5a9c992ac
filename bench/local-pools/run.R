# Claim: workers of this machine that stand ready start at least 20 times as fast as makePSOCKcluster() starts
# 64, a second cluster from the warm server in at most 0.15 of the time of the first, and take at most a
# fourth of the memory with a heavy package loaded; a small map on them costs at most three times what
# parLapply() takes, and waits of 0.1 s overlap as with mirai.
source("bench/bench.R")
loadNamespace("regatta")

sizes <- if (bench_short) c(2L, 8L) else c(2L, 8L, 32L, 64L)
rounds <- if (bench_short) 3L else 7L
control <- regatta::par_control(progress = FALSE)

# Started and asked once, then stopped outside of the measured time.
started <- NULL
timer <- function(start) {
  on.exit({
    parallel::stopCluster(started)
    started <<- NULL
  })
  begun <- bench_now()
  started <<- start()
  pids <- unlist(parallel::clusterCall(started, Sys.getpid))
  ended <- bench_now()
  stopifnot(length(unique(pids)) == length(started))
  ended - begun
}
daemons <- function(n) {
  mirai::daemons(n, dispatcher = FALSE)
  on.exit(mirai::daemons(0L))
  stopifnot(length(unique(unlist(mirai::mirai_map(seq_len(4L * n), function(i) {
    Sys.sleep(0.05)
    Sys.getpid()
  })[]))) == n)
}
cold <- function(n) {
  regatta:::fork_server_stop_all()
  regatta::cluster_local(n)
}

rows <- NULL
add <- function(cell) rows <<- rbind(rows, cell)
for (n in sizes) {
  psock <- function(strategy) function() parallel::makePSOCKcluster(n, setup_strategy = strategy)
  peers <- c(
    list("regatta, first" = function() cold(n), "regatta, warm" = function() regatta::cluster_local(n)),
    list("parallel::makePSOCKcluster" = psock("parallel")),
    if (n <= 8L) list("parallel::makePSOCKcluster, sequential" = psock("sequential")),
    list("parallel::makeForkCluster" = function() parallel::makeForkCluster(n)),
    bench_peer("parallelly::makeClusterPSOCK", "parallelly", function() {
      parallelly::makeClusterPSOCK(n, setup_strategy = "parallel", autoStop = FALSE)
    })
  )
  add(bench_cell(
    sprintf("%d fresh workers, each of which has answered", n), peers, if (n > 8L) 3L else rounds,
    timer = timer
  ))
}
bench_peer("mirai::daemons", "mirai", daemons)
most <- if (bench_short) 100L else 500L
add(bench_cell(sprintf("%d fresh workers in one session", most), list(regatta = function() cold(most)), 3L,
  timer = timer))

# Memory that the workers have for themselves, of shared pages their part (PSS), with a package that takes much.
heavy <- Filter(function(p) nzchar(system.file(package = p)), c("sf", "Matrix"))[1]
pss <- function(pids) {
  sum(vapply(pids, function(pid) {
    lines <- readLines(file.path("/proc", pid, "smaps_rollup"))
    as.numeric(sub("^Pss: +([0-9]+) kB$", "\\1", grep("^Pss:", lines, value = TRUE)))
  }, 0)) * 1024
}
workers <- if (bench_short) 4L else 16L
memory_of <- function(cluster) {
  on.exit(parallel::stopCluster(cluster))
  pss(unlist(parallel::clusterCall(cluster, Sys.getpid)))
}
memory <- c(
  regatta = memory_of(regatta::cluster_local(workers, packages = heavy)),
  "parallel::makePSOCKcluster" = {
    cluster <- parallel::makePSOCKcluster(workers)
    parallel::clusterCall(cluster, function(p) suppressMessages(library(p, character.only = TRUE)) && FALSE, heavy)
    memory_of(cluster)
  }
)
cat(sprintf("\nmemory of %d workers with %s loaded: %s\n", workers, heavy,
  paste(sprintf("%s %.0f MB", names(memory), memory / 1e6), collapse = ", ")))

# What they cost once they stand.
same <- function(i) i
psock <- parallel::makePSOCKcluster(2L)
own <- regatta::cluster_local(2L)
map <- function(X, FUN, on = own) regatta::par_lapply(X, FUN, .on = on, .control = control)
small <- function(map) function() for (k in 1:20) map(1:4, same)
add(bench_cell("20 maps of 4 tasks on workers that stand", list(
  "parallel::parLapply" = small(function(X, FUN) parallel::parLapply(psock, X, FUN)),
  regatta = small(map)
), rounds * 3L))
balanced <- function(cluster) function() parallel::clusterApplyLB(cluster, 1:500, same)
add(bench_cell("500 tasks of clusterApplyLB()", list(
  "parallel, PSOCK" = balanced(psock), "regatta, cluster_local()" = balanced(own)
), rounds))
forked <- regatta::par_control(workers = 2L, progress = FALSE)
empty <- function(on, control) function() regatta::par_lapply(seq_len(1e4), same, .on = on, .control = control)
add(bench_cell("10,000 empty tasks", list(
  "regatta, forked" = empty(NULL, forked), "regatta, cluster_local()" = empty(own, control),
  "regatta, forked, one task" = function() regatta::par_lapply(1:2, same, .control = forked)
), rounds))
parallel::stopCluster(psock)
parallel::stopCluster(own)

waiting <- regatta::cluster_local(40L)
pause <- function(i) Sys.sleep(0.1)
add(bench_cell("40 waits of 0.1 s on 40 workers", c(
  list(regatta = function() map(1:40, pause, waiting)),
  bench_peer("mirai::mirai_map", "mirai", function() mirai::mirai_map(1:40, pause)[])
), rounds))
parallel::stopCluster(waiting)
regatta:::fork_server_stop_all()

seconds <- function(cell, peer) rows$median_s[rows$cell == cell & rows$peer == peer]
aim <- function(what, value, limit) {
  cat(sprintf("aim: %s at most %g: %.3g, %s\n", what, limit, value, if (value <= limit) "met" else "missed"))
}
last <- sprintf("%d fresh workers, each of which has answered", max(sizes))
aim("start, of PSOCK's", seconds(last, "regatta, first") / seconds(last, "parallel::makePSOCKcluster"), 1 / 20)
aim("a second cluster, of the first", seconds(last, "regatta, warm") / seconds(last, "regatta, first"), 0.15)
aim("memory, of PSOCK's", memory[[1L]] / memory[[2L]], 1 / 4)
maps <- "20 maps of 4 tasks on workers that stand"
aim("a small map, of parLapply's", seconds(maps, "regatta") / seconds(maps, "parallel::parLapply"), 3)
each <- "500 tasks of clusterApplyLB()"
aim("a task of clusterApplyLB(), of PSOCK's", seconds(each, "regatta, cluster_local()") / seconds(each, "parallel, PSOCK"), 0.5)
many <- "10,000 empty tasks"
fork <- seconds(many, "regatta, forked") - seconds(many, "regatta, forked, one task")
aim("empty tasks, of a forked map's without its fork", seconds(many, "regatta, cluster_local()") / fork, 1.2)
bench_write("local-pools", rows)
