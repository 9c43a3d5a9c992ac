# Schedulers are stand-ins that run a job on this machine: what is tested is what they are told.
withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

# Commands first on the PATH that keep the words they were given in "log" and the job in "job-N", and run it in a
# session of its own. They answer as the manuals of the schedulers say; the name of a job holds the pid of its session.
local_scheduler <- function(frame = parent.frame()) {
  if (!.Call(regatta:::ffi_crypto_available)) testthat::skip("built without libsodium")
  skip_unless_linux()
  skip_unless_command("setsid")
  bin <- withr::local_tempdir("bin-", .local_envir = frame)
  command <- function(name, lines) {
    writeLines(c("#!/bin/sh", sprintf("echo \"%s $*\" >>'%s/log'", name, bin), lines), file.path(bin, name))
    Sys.chmod(file.path(bin, name), "755")
  }
  begin <- function(code) c(
    sprintf("job=$(mktemp '%s/job-XXXXXX'); cat >\"$job\"", bin), code,
    "setsid sh \"$job.sh\" >/dev/null 2>&1 </dev/null & pid=$!"
  )
  plain <- begin("cp \"$job\" \"$job.sh\"")
  block <- begin("sed -n '/^        - |$/,$s/^          //p' \"$job\" >\"$job.sh\"")
  end <- "kill -9 -$pid"
  alive <- "kill -0 $pid 2>/dev/null || exit 1"
  command("bsub", c(plain, "echo \"Job <$pid> is submitted to default queue <normal>.\""))
  command("bjobs", c("pid=$2", alive, "echo \"$pid me RUN normal here there regatta\""))
  command("bkill", c("pid=$1", end))
  command("qsub", c(plain, "if [ \"$1\" = -terse ]; then echo \"$pid\"; else echo \"$pid.head\"; fi"))
  command("qstat", c("for last; do :; done; pid=${last%.head}", alive))
  command("qdel", c("pid=${1%.head}", end))
  command("kubectl", c(
    "if [ \"$1\" = create ]; then", block, "echo \"job.batch/regatta-$pid\"; exit; fi", "pid=${2##*-}",
    "if [ \"$1\" = get ]; then kill -0 $pid 2>/dev/null && echo 1; exit; fi", end
  ))
  withr::local_envvar(PATH = paste(bin, Sys.getenv("PATH"), sep = ":"), .local_envir = frame)
  list(
    log = function() readLines(file.path(bin, "log")),
    job = function() readLines(list.files(bin, "^job-......$", full.names = TRUE)[[1L]])
  )
}

jobs_expected <- list(
  lsf = list(c("bsub ", "bkill [0-9]+"), c("#BSUB -J regatta", "#BSUB -W 1:00"), "#BSUB -W 1:00"),
  pbs = list(c("qsub ", "qdel [0-9]+.head"), c("#PBS -N regatta", "#PBS -l walltime=60"), "#PBS -l walltime=60"),
  sge = list(c("qsub -terse", "qdel [0-9]+"), c("#$ -S /bin/sh", "#$ -l h_rt=60"), "#$ -l h_rt=60"),
  kubernetes = list(
    c("kubectl create -o name -f -", "kubectl delete job.batch/regatta-[0-9]+ --wait=false"),
    c("kind: Job", "        image: mine:1"), character()
  )
)

for (system in names(jobs_expected)) test_that(paste("a job brings a worker and ends with the cluster:", system), {
  scheduler <- local_scheduler()
  wanted <- jobs_expected[[system]]
  lines <- if (length(wanted[[3L]]) > 0L) c("export FROM_TEMPLATE=yes", wanted[[3L]])
  cluster <- cluster_jobs(
    1, system, "127.0.0.1", as.character(lines), image = if (system == "kubernetes") "mine:1",
    rscript = remote_rscript(), env = remote_env(), timeout = 60 * slowness()
  )
  withr::defer(stop_remote(cluster))
  # What watches the job looks now and then whether it has gone: nobody waits for that.
  local_function("launches_await", function(launches, seconds) expect_length(launches, 0L))
  draw <- function(i) runif(1) + i
  expect_identical(
    par_lapply(1:3, draw, .on = cluster, .control = par_control(seed = 1L, progress = FALSE)),
    par_lapply(1:3, draw, .control = two_workers())
  )
  if (length(lines) > 0L) {
    expect_identical(parallel::clusterCall(cluster, Sys.getenv, "FROM_TEMPLATE"), list("yes"))
    expect_lt(match(wanted[[3L]], scheduler$job()), match("export FROM_TEMPLATE=yes", scheduler$job()))
  }
  expect_true(all(wanted[[2L]] %in% scheduler$job()))
  expect_match(scheduler$log()[[1L]], paste0("^", wanted[[1L]][[1L]]))
  stop_remote(cluster)
  wait_until(function() any(grepl(wanted[[1L]][[2L]], scheduler$log())), 60, "the end of the job")
  expect_true(any(grepl(paste0("^", wanted[[1L]][[2L]], "$"), scheduler$log())))
})

test_that("a template may be the whole job, and arguments are checked", {
  whole <- c("begin", "  {{script}}", "end {{image}}")
  expect_identical(
    job_script(job_template(job_systems$pbs$template, whole, "i"), c("one", "two")),
    c("begin", "  one", "  two", "end i")
  )
  argument <- function(code) expect_error(code, class = "regatta_error_argument")$argument
  expect_identical(argument(cluster_jobs(1, "condor", "127.0.0.1")), "system")
  expect_identical(argument(cluster_jobs(1, "kubernetes", "127.0.0.1")), "image")
  expect_identical(argument(cluster_jobs(0, "lsf", "127.0.0.1")), "n")
})

test_that("a job that is refused is told of in the scheduler's words", {
  if (!.Call(regatta:::ffi_crypto_available)) skip("built without libsodium")
  refuse <- c("sh", "-c", "echo 'no such project' >&2; exit 3")
  error <- expect_error(
    cluster_jobs(1, "lsf", "127.0.0.1", submit = refuse, timeout = 30), class = "regatta_error_start"
  )
  expect_match(conditionMessage(error), "no such project", fixed = TRUE)
  error <- expect_error(
    cluster_jobs(1, "pbs", "127.0.0.1", submit = c("echo", "what?"), timeout = 30), class = "regatta_error_start"
  )
  expect_match(conditionMessage(error), "no job is named in: what?", fixed = TRUE)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
