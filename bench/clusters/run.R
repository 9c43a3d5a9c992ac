# Claim: on a cluster of package parallel that stands, a small map costs at most four times what
# parLapply() takes, though it relays output and conditions and survives what its nodes do; and tiny
# elements, which are balanced, cost no more than with clusterApplyLB().
source("bench/bench.R")
loadNamespace("regatta")

cluster <- parallel::makePSOCKcluster(2L)
rounds <- if (bench_short) 5L else 21L
control <- regatta::par_control(progress = FALSE)
own <- function(X, FUN) regatta::par_lapply(X, FUN, .on = cluster, .control = control)
same <- function(i) i

small <- function(map) function() for (k in 1:20) map(1:4, same)
tiny <- function(map) function() map(1:1000, same)
static <- function(X, FUN) parallel::parLapply(cluster, X, FUN)
balanced <- function(X, FUN) parallel::clusterApplyLB(cluster, X, FUN)

bench_same("4 tasks", list(function() static(1:4, same), function() own(1:4, same)))
rows <- rbind(
  bench_cell("20 maps of 4 tasks on a standing cluster",
    list("parallel::parLapply" = small(static), regatta = small(own)), rounds),
  bench_cell("1,000 tiny tasks on a standing cluster",
    list("parallel::clusterApplyLB" = tiny(balanced), regatta = tiny(own)), rounds)
)
parallel::stopCluster(cluster)

aim <- function(row, limit) {
  ratio <- rows$times_yardstick[[row]]
  cat(sprintf("aim: %s at most %g times the other's time: %.3g, %s\n", rows$cell[[row]], limit, ratio,
    if (ratio <= limit) "met" else "missed"))
}
aim(2L, 4)
aim(4L, 1)
bench_write("clusters", rows)
