# The same call gives the same result wherever it runs.
withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

# Every verb once, with random numbers, names and what is not plain among its values. It is sent to other
# sessions: it takes everything from the package.
every_verb <- function(on) {
  ns <- asNamespace("regatta")
  control <- ns$par_control(
    seed = 11L, progress = FALSE, dump = "no", workers = if (is.null(on)) 2L
  )
  offset <- 0.5 # found in the environment of the functions
  draw <- function(i, by = 1) runif(1) * by + offset + i
  stream <- ns$par_stream(1:7, draw, .on = on, .control = control)
  streamed <- list()
  while (ns$par_more(stream)) streamed[[length(streamed) + 1L]] <- ns$par_next(stream)
  list(
    lapply = ns$par_lapply(c(a = 1L, b = 2L, c = 3L), draw, by = 2, .on = on, .control = control),
    values = ns$par_lapply(1:4, function(i) {
      list(NULL, "caf\u00e9", 1:3, as.Date("2020-01-01") + i, sum, rnorm(2))[[i]]
    }, .on = on, .control = control),
    vapply = ns$par_vapply(1:9, draw, 0, .on = on, .control = control),
    mapply = ns$par_mapply(function(x, y) paste(x, y, signif(runif(1), 6)), letters[1:5], 1:5,
      .on = on, .control = control
    ),
    sapply = ns$par_sapply(1:6, function(i) c(i, rexp(1)), .on = on, .control = control),
    reduce = ns$par_reduce(1:20, draw, `+`, 0, .on = on, .control = control),
    stream = streamed,
    call = ns$par_value(ns$par_call(runif(3) + offset, .on = on, .control = control)),
    failed = tryCatch(
      ns$par_lapply(1:5, function(i) if (i > 2L) stop("number ", i) else i, .on = on, .control = control),
      error = function(e) list(class(e), e$index, conditionMessage(e$parent))
    )
  )
}
# Functions have the environment that they are sent with, whatever that is.
expect_same <- function(got, where) {
  expect_identical(names(got), names(expected), label = where)
  for (verb in names(expected)) {
    expect_identical(got[[verb]], expected[[verb]], label = paste(verb, "on", where))
  }
}
expected <- every_verb(NULL)

test_that("all verbs give on every kind of worker what they give on forked ones", {
  expect_identical(lengths(expected$lapply), c(a = 1L, b = 1L, c = 1L))
  expect_length(unique(unlist(expected$lapply)), 3L)
  for (start in c("forkserver", "parallel", "sequential")) local({
    cluster <- cluster_local(2, start = start)
    on.exit(parallel::stopCluster(cluster))
    expect_same(every_verb(cluster), paste("cluster_local, start =", start))
  })
  end_servers()
  local({
    cluster <- local_cluster(2)
    expect_same(every_verb(cluster), "makePSOCKcluster")
  })
})

test_that("all verbs give on hosts of ssh what they give on forked workers", {
  ssh <- local_sshd()
  cluster <- cluster_ssh(
    c("127.0.0.1", "localhost"), 1, remote_rscript(), remote_env(), ssh, timeout = 60 * slowness()
  )
  withr::defer(stop_remote(cluster))
  expect_same(every_verb(cluster), "cluster_ssh")
})

test_that("all verbs give on hosts of Slurm what they give on forked workers", {
  local_slurm()
  got <- fault_run(function(every_verb, rscript, env) {
    cluster <- cluster_slurm(rscript = rscript, env = env, address = "127.0.0.1", timeout = 60)
    on.exit(parallel::stopCluster(cluster))
    every_verb(cluster)
  }, list(every_verb = every_verb, rscript = remote_rscript(), env = remote_env()),
  wrap = c("salloc", "-Q", "-N2", "-n2"), timeout = 120)$value
  expect_same(got, "cluster_slurm")
})

test_that("all verbs give on daemons of mirai what they give on forked workers", {
  if (system.file(package = "mirai") == "") skip("no mirai") # it is not to be loaded here
  # What mirai keeps open it keeps in a session of its own.
  got <- fault_run(function(every_verb) {
    cluster <- mirai::make_cluster(2)
    on.exit(mirai::stop_cluster(cluster))
    every_verb(cluster)
  }, list(every_verb = every_verb))$value
  expect_same(got, "mirai")
})

test_that("all verbs give on nodes of snow what they give on forked workers", {
  if (system.file(package = "snow") == "") skip("no snow")
  got <- fault_run(function(every_verb) {
    cluster <- snow::makeSOCKcluster(c("localhost", "localhost"))
    on.exit(snow::stopCluster(cluster))
    every_verb(cluster)
  }, list(every_verb = every_verb))$value
  expect_same(got, "makeSOCKcluster of snow")
})

# Open MPI refuses to run as root and to start more than there are cores, if it is not asked to.
test_that("all verbs give on nodes of MPI what they give on forked workers", {
  for (package in c("snow", "Rmpi")) if (system.file(package = package) == "") skip(paste("no", package))
  skip_unless_command("orted")
  # Rmpi looks for a name that comes with the files for developers.
  libraries <- withr::local_tempdir("mpi-")
  found <- Sys.glob(c("/usr/lib/*/libmpi.so*", "/usr/lib64/openmpi/lib/libmpi.so*"))
  if (length(found) > 0L) file.symlink(found[[1L]], file.path(libraries, "libmpi.so"))
  session <- local_session(function(every_verb) {
    cluster <- parallel::makeCluster(2, type = "MPI")
    cat("ready", length(unique(parallel::clusterCall(cluster, Sys.getpid))), "\n")
    saveRDS(every_verb(cluster), "verbs.part")
    file.rename("verbs.part", "verbs.rds")
    Sys.sleep(600) # MPI may not end by itself
  }, list(every_verb = every_verb), env = c(
    LD_LIBRARY_PATH = paste(c(libraries, Sys.getenv("LD_LIBRARY_PATH")), collapse = ":"),
    OMPI_ALLOW_RUN_AS_ROOT = "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = "1", OMPI_MCA_rmaps_base_oversubscribe = "1",
    OMPI_MCA_btl = "self,tcp", OMPI_MCA_plm_rsh_agent = "/bin/false"
  ))
  is_ready <- tryCatch(fault_wait_line(session, "^ready 2"), error = function(e) FALSE)
  if (!is_ready) skip("MPI does not start here")
  at <- file.path(session$dir, "verbs.rds")
  wait_until(file.exists(at) || !session$process$is_alive(), 120)
  if (!file.exists(at)) stop(fault_story(session))
  expect_same(readRDS(at), "MPI")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
