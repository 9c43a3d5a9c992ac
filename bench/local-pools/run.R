# Claim: on workers of this machine that stand ready a small map costs at most what mirai takes and three times what
# parLapply() takes, a task of clusterApplyLB() half of PSOCK's, a vector of 80 MB a fifth of PSOCK's, 10,000 empty
# tasks 1.2 of a forked map without its fork, and waits of 0.1 s overlap as with mirai.
source("bench/bench.R")
loadNamespace("regatta")

rounds <- if (bench_short) 3L else 7L
control <- regatta::par_control(progress = FALSE)
rows <- NULL
add <- function(cell) rows <<- rbind(rows, cell)
with_daemons <- function(n) bench_peer("mirai", "mirai", function() mirai::daemons(n))

same <- function(i) i
psock <- parallel::makePSOCKcluster(2L)
own <- regatta::cluster_local(2L)
for (start in with_daemons(2L)) start()
map <- function(X, FUN, on = own) regatta::par_lapply(X, FUN, .on = on, .control = control)
small <- function(map) function() for (k in 1:20) map(1:4, same)
add(bench_cell("20 maps of 4 tasks on workers that stand", c(
  list(
    "parallel::parLapply" = small(function(X, FUN) parallel::parLapply(psock, X, FUN)),
    regatta = small(map)
  ),
  bench_peer("mirai::mirai_map", "mirai", small(function(X, FUN) mirai::mirai_map(X, FUN)[]))
), rounds * 3L))

daemons <- bench_peer("mirai", "mirai", function() mirai::make_cluster(2L))
daemons <- if (length(daemons) > 0L) daemons[[1L]]()
balanced <- function(cluster) function() parallel::clusterApplyLB(cluster, 1:500, same)
add(bench_cell("500 tasks of clusterApplyLB()", c(
  list("parallel, PSOCK" = balanced(psock), "regatta, cluster_local()" = balanced(own)),
  if (!is.null(daemons)) list("mirai, make_cluster()" = balanced(daemons))
), rounds))
if (!is.null(daemons)) parallel::stopCluster(daemons)

large <- stats::runif(1e7)
given <- function(cluster) function() parallel::clusterCall(cluster, length, large)
add(bench_cell("a vector of 80 MB by clusterCall()", list(
  "parallel, PSOCK" = given(psock), "regatta, cluster_local()" = given(own)
), rounds))

forked <- regatta::par_control(workers = 2L, progress = FALSE)
empty <- function(on, control) function() regatta::par_lapply(seq_len(1e4), same, .on = on, .control = control)
add(bench_cell("10,000 empty tasks", list(
  "regatta, forked" = empty(NULL, forked), "regatta, cluster_local()" = empty(own, control),
  "regatta, forked, two tasks" = function() regatta::par_lapply(1:2, same, .control = forked)
), rounds * 3L))
parallel::stopCluster(psock)
parallel::stopCluster(own)

waiting <- regatta::cluster_local(40L)
if (requireNamespace("mirai", quietly = TRUE)) {
  mirai::daemons(0L)
  mirai::daemons(40L)
}
pause <- function(i) Sys.sleep(0.1)
add(bench_cell("40 waits of 0.1 s on 40 workers", c(
  list(regatta = function() map(1:40, pause, waiting)),
  bench_peer("mirai::mirai_map", "mirai", function() mirai::mirai_map(1:40, pause)[])
), rounds))
parallel::stopCluster(waiting)
if (requireNamespace("mirai", quietly = TRUE)) mirai::daemons(0L)
regatta:::fork_server_stop_all()

seconds <- function(cell, peer) rows$median_s[rows$cell == cell & rows$peer == peer]
aim <- function(what, value, limit) {
  if (length(value) == 0L) return(invisible()) # a peer that is not installed
  cat(sprintf("aim: %s at most %g: %.3g, %s\n", what, limit, value, if (value <= limit) "met" else "missed"))
}
maps <- "20 maps of 4 tasks on workers that stand"
aim("a small map, of parLapply's", seconds(maps, "regatta") / seconds(maps, "parallel::parLapply"), 3)
aim("a small map, of mirai's", seconds(maps, "regatta") / seconds(maps, "mirai::mirai_map"), 1)
each <- "500 tasks of clusterApplyLB()"
aim("a task of clusterApplyLB(), of PSOCK's", seconds(each, "regatta, cluster_local()") / seconds(each, "parallel, PSOCK"), 0.5)
one <- "a vector of 80 MB by clusterCall()"
aim("a large vector, of PSOCK's", seconds(one, "regatta, cluster_local()") / seconds(one, "parallel, PSOCK"), 0.2)
many <- "10,000 empty tasks"
fork <- seconds(many, "regatta, forked") - seconds(many, "regatta, forked, two tasks")
aim("empty tasks, of a forked map's without its fork", seconds(many, "regatta, cluster_local()") / fork, 1.2)
waits <- "40 waits of 0.1 s on 40 workers"
aim("waits, of mirai's", seconds(waits, "regatta") / seconds(waits, "mirai::mirai_map"), 1)
bench_write("local-pools", rows)
