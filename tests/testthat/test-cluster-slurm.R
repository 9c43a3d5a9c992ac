withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

test_that("without an allocation that is said, and off this host the address is asked for", {
  withr::local_envvar(SLURM_JOB_ID = NA)
  error <- expect_error(cluster_slurm(2), class = "regatta_error_start")
  expect_match(conditionMessage(error), "salloc")
  withr::local_envvar(SLURM_JOB_ID = "7", SLURM_JOB_NODELIST = "far[1-2]")
  error <- expect_error(cluster_slurm(2), class = "regatta_error_argument")
  expect_identical(error$argument, "address")
})

test_that("one srun brings the nodes of an allocation, and they go with the cluster", {
  local_slurm()
  job <- function(rscript, env) {
    cluster <- cluster_slurm(
      rscript = rscript, env = env, address = "127.0.0.1", timeout = 60
    )
    on.exit(parallel::stopCluster(cluster))
    hosts <- unlist(parallel::clusterCall(cluster, Sys.getenv, "SLURMD_NODENAME"))
    control <- par_control(seed = 1L, progress = FALSE, dump = "no")
    list(
      hosts = sort(hosts), pids = cluster_status(cluster)$pid,
      values = par_lapply(1:9, function(i) runif(1) + i, .on = cluster, .control = control)
    )
  }
  got <- fault_run(
    job, list(rscript = remote_rscript(), env = remote_env()),
    wrap = c("salloc", "-Q", "-N2", "-n4"), timeout = 120
  )$value
  expect_identical(got$hosts, c("n1", "n1", "n2", "n2"))
  control <- par_control(seed = 1L, progress = FALSE, dump = "no", workers = 2L)
  expect_identical(got$values, par_lapply(1:9, function(i) runif(1) + i, .control = control))
  expect_false(any(vapply(got$pids, is_running, NA)))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
