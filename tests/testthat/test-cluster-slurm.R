withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

test_that("off this host the address is asked for, and outside of an allocation the number", {
  withr::local_envvar(SLURM_JOB_ID = NA)
  argument <- function(code) expect_error(code, class = "regatta_error_argument")$argument
  expect_identical(argument(cluster_slurm(2)), "address")
  expect_identical(argument(cluster_slurm(address = "127.0.0.1")), "n")
  expect_identical(argument(cluster_slurm(2, template = NA_character_, address = "127.0.0.1")), "template")
  withr::local_envvar(SLURM_JOB_ID = "7", SLURM_JOB_NODELIST = "far[1-2]")
  error <- expect_error(cluster_slurm(2), class = "regatta_error_argument")
  expect_identical(error$argument, "address")
})

test_that("where Slurm has no commands that is said, before anything is started", {
  withr::local_envvar(SLURM_JOB_ID = NA)
  error <- expect_error(cluster_slurm(2, address = "127.0.0.1", sbatch = "no-sbatch-here"), "on a login node",
    class = "regatta_error_argument")
  expect_identical(error$argument, "sbatch")
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

test_that("from a login node an array of jobs brings the workers, or jobs of their own, which end with the cluster", {
  local_slurm()
  withr::local_envvar(SLURM_JOB_ID = NA)
  queue <- function() system2("squeue", c("-h", "-r", "-o", "%j/%P/%k"), stdout = TRUE)
  cluster <- cluster_slurm(
    3, remote_rscript(), remote_env(), address = "127.0.0.1", timeout = 90 * slowness(),
    template = c("#SBATCH --partition=main", "#SBATCH --comment=mine", "export FROM_TEMPLATE=yes")
  )
  withr::defer(stop_remote(cluster))
  expect_identical(queue(), rep("regatta/main/mine", 3L))
  control <- par_control(seed = 1L, progress = FALSE, dump = "no")
  draw <- function(i) {
    list(
      runif(1), Sys.getenv("FROM_TEMPLATE"), nzchar(Sys.getenv("SLURM_ARRAY_TASK_ID")),
      nzchar(Sys.getenv("REGATTA_NODE")) # the secret is not for programs that an element starts
    )
  }
  got <- par_lapply(1:9, draw, .on = cluster, .control = control)
  control <- two_workers()
  expect_identical(lapply(got, `[[`, 1L), par_lapply(1:9, function(i) runif(1), .control = control))
  expect_identical(unique(lapply(got, `[`, -1L)), list(list("yes", TRUE, FALSE)))
  stop_remote(cluster)
  wait_until(function() length(queue()) == 0L, 60, "the end of the job")

  # Jobs of their own for the workers: one that somebody cancels costs what its worker was at, and comes again.
  env <- local_remote_env()
  cluster <- cluster_jobs(
    2, "slurm", "127.0.0.1", c("#SBATCH --comment=own", "export FROM_TEMPLATE=yes"), rscript = remote_rscript(),
    env = env, timeout = 90 * slowness(), deadline = 4
  )
  withr::defer(stop_remote(cluster))
  expect_identical(queue(), rep("regatta/main/own", 2L))
  expect_identical(parallel::clusterCall(cluster, Sys.getenv, "FROM_TEMPLATE"), list("yes", "yes"))
  jobs <- function() unlist(parallel::clusterCall(cluster, Sys.getenv, "SLURM_JOB_ID"))
  before <- jobs()
  expect_false(before[[1L]] == before[[2L]])
  victim <- cluster_status(cluster)$pid[[2L]]
  got <- withCallingHandlers(
    par_lapply(1:6, function(i) {
      if (Sys.getpid() == victim) {
        message("cancel")
        Sys.sleep(600)
      }
      runif(1)
    }, .on = cluster, .control = par_control(seed = 1L, progress = FALSE, dump = "no", retries = 2, batch = 1L)),
    message = function(m) {
      system2("scancel", before[[2L]])
      invokeRestart("muffleMessage")
    }
  )
  expect_length(par_last()$tries$index, 1L)
  expect_identical(got, par_lapply(1:6, function(i) runif(1), .control = control))
  wait_until(identical(status_of(cluster), c("idle", "idle")), 90)
  after <- jobs()
  expect_identical(after[[1L]], before[[1L]])
  expect_false(after[[2L]] == before[[2L]])
  stop_remote(cluster)
  wait_until(function() length(queue()) == 0L, 60, "the end of the jobs")
})

test_that("a session that ends without stopping its cluster leaves no folder of an agent", {
  local_slurm()
  folder <- withr::local_tempdir("agents-")
  job <- function(rscript, env) {
    cluster <- cluster_slurm(rscript = rscript, env = env, address = "127.0.0.1", timeout = 60)
    kept <<- cluster
    unlist(parallel::clusterCall(cluster, Sys.getpid))
  }
  pids <- fault_run(
    job, list(rscript = remote_rscript(), env = remote_env(folder)), wrap = c("salloc", "-Q", "-N2", "-n2"), timeout = 120
  )$value
  wait_until(!any(vapply(pids, is_running, NA)) && length(list.files(folder)) == 0L, 60)
  expect_length(pids, 2L)
})

test_that("a map with a checkpoint whose job Slurm ends, as at its limit of time, goes on in the next job", {
  local_slurm()
  folder <- withr::local_tempdir("job-")
  at <- function(name) file.path(folder, name)
  script <- bquote({
    element <- function(i, folder) {
      cat(sprintf("%d\n", as.integer(i)), file = file.path(folder, "runs"), append = TRUE)
      # The second half is not for the first job.
      if (i > 10L && !file.exists(file.path(folder, "again"))) Sys.sleep(600)
      i + runif(1)
    }
    control <- regatta::par_control(workers = 2, checkpoint = .(at("run")), seed = 1L, progress = FALSE)
    saveRDS(regatta::par_lapply(1:20, element, .(folder), .control = control), .(at("part")))
    file.rename(.(at("part")), .(at("values")))
  })
  writeLines(deparse(script), at("job.R"))
  env <- remote_env(folder)
  writeLines(c("#!/bin/sh", sprintf("export %s='%s'", names(env), env), paste(c(
    "exec", remote_rscript(), at("job.R")
  ), collapse = " ")), at("job.sh"))
  submit <- function() {
    system2("sbatch", c("--parsable", "-n1", "-c2", "-o", at("out.%j"), at("job.sh")), stdout = TRUE)
  }
  queue <- function() system2("squeue", c("-h", "-o", "%i"), stdout = TRUE)
  logged <- function() if (file.exists(at("run/regatta.log"))) sort(par_log(at("run"))$index) else integer()
  ended <- function(id) wait_until(function() !id %in% queue(), 60, "the end of the job")

  id <- submit()
  wait_until(function() length(logged()) == 10L, 90, "the first half")
  # All processes of the job are sent what Slurm sends at the limit, SIGTERM and KillWait later SIGKILL.
  system2("scancel", c("--full", id))
  ended(id)
  expect_false(file.exists(at("values")))
  file.create(at("again"))
  id <- submit()
  wait_until(function() file.exists(at("values")), 90, "the values")
  ended(id)
  control <- par_control(workers = 2, seed = 1L, progress = FALSE)
  expect_identical(readRDS(at("values")), par_lapply(1:20, function(i) i + runif(1), .control = control))
  expect_identical(logged(), as.numeric(1:20))
  runs <- as.integer(readLines(at("runs")))
  expect_identical(tabulate(runs, 20L)[1:10], rep(1L, 10L))
  expect_match(readLines(at(paste0("out.", id))), "10 of 20 elements", all = FALSE)
})

test_that("hosts of an allocation have as many workers as tasks, and each one before any a second", {
  expect_identical(slurm_per_host("2(x3),1"), c(2L, 2L, 2L, 1L))
  expect_identical(slurm_workers(7L, c(2L, 2L, 2L, 1L)), c(2L, 2L, 2L, 1L))
  expect_identical(slurm_workers(3L, c(2L, 2L, 2L, 1L)), c(1L, 1L, 1L))
  expect_identical(slurm_workers(5L, c(2L, 2L)), c(3L, 2L))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
