# A folder that stands for a machine: what /proc and the mounted control groups say there.

# `groups` are the lines of /proc/self/cgroup. A mount is c(version, controllers, top, point).
# `files` maps a path to its lines.
fake_machine <- function(groups = character(), mounts = list(), files = list(),
                         env = parent.frame()) {
  root <- withr::local_tempdir("machine-", .local_envir = env)
  lines <- vapply(seq_along(mounts), function(i) mount_line(i, mounts[[i]]), "")
  files <- c(list("/proc/self/cgroup" = groups, "/proc/self/mountinfo" = lines), files)
  for (path in names(files)) {
    full <- file.path(root, sub("^/", "", path))
    dir.create(dirname(full), recursive = TRUE, showWarnings = FALSE)
    writeLines(files[[path]], full)
  }
  root
}

mount_line <- function(i, mount) {
  type <- if (mount[[1L]] == "2") "cgroup2" else "cgroup"
  options <- if (mount[[1L]] == "2") "rw,nsdelegate" else paste0("rw,", mount[[2L]])
  sprintf(
    "%d 24 0:%d %s %s rw,nosuid shared:%d master:1 - %s cgroup %s",
    30L + i, 20L + i, mount[[3L]], gsub(" ", "\\040", mount[[4L]], fixed = TRUE), i, type, options
  )
}

# No source but those of the test: what the machine that runs it sets is taken away.
local_no_wishes <- function(env = parent.frame()) {
  names <- c(
    "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_NODEID",
    "SLURM_STEP_TASKS_PER_NODE", "PBS_NUM_PPN", "NCPUS", "LSB_DJOB_NUMPROC", "LSB_MCPU_HOSTS",
    "NSLOTS", "PE_HOSTFILE", "MC_CORES", "_R_CHECK_LIMIT_CORES_", "REGATTA_SHARE"
  )
  withr::local_envvar(stats::setNames(rep(NA, length(names)), names), .local_envir = env)
  withr::local_options(mc.cores = NULL, .local_envir = env)
}

# What `code` prints in a new session, started through the command `wrap`.
session_prints <- function(code, wrap = character()) {
  script <- withr::local_tempfile(fileext = ".R", lines = code)
  command <- c(wrap, file.path(R.home("bin"), "Rscript"), "--vanilla", script)
  libraries <- paste0("R_LIBS=", shQuote(paste(.libPaths(), collapse = ":")))
  system2(command[[1L]], shQuote(command[-1L]), stdout = TRUE,
    env = c("R_TESTS=", libraries))
}

# For packages that a test uses in other sessions: to load one may leave options, variables and files here.
skip_unless_there <- function(...) {
  for (package in c(...)) {
    testthat::skip_if_not(nzchar(system.file(package = package)), paste("package", package, "is installed"))
  }
}
