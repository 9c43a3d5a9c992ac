# Nodes in an allocation of Slurm: one srun brings all of them, which is quicker than one for each. They
# have their secret from srun's stdin, and their number from Slurm.

cluster_slurm <- function(n = NULL, rscript = file.path(R.home("bin"), "Rscript"), env = NULL,
                          srun = "srun", address = NULL, timeout = 60, deadline = 20,
                          min_workers = 1) {
  call <- sys.call()
  if (!nzchar(Sys.getenv("SLURM_JOB_ID"))) {
    signal_error(error_start(
      if (is.null(n)) 0L else n, "this session has no allocation of Slurm",
      "Run it by `sbatch`, or by `salloc -n 4 Rscript script.R`.", call = call
    ))
  }
  n <- check_count(if (is.null(n)) slurm_tasks() else n, "n")
  rscript <- check_words(rscript, "rscript")
  srun <- check_words(srun, "srun")
  env <- check_env(env)
  check_string(address, "address", null = TRUE)
  timeout <- check_seconds(timeout, "timeout")
  deadline <- check_deadline(deadline)
  min_workers <- check_count(min_workers, "min_workers", min = 0)
  if (is.null(address)) {
    if (!slurm_is_here()) {
      abort_argument("address", address, paste(
        "the address of this host as the hosts of the allocation know it (what is sent to them",
        "is not encrypted)"
      ))
    }
    address <- "127.0.0.1"
  }
  need_crypto(call)
  remote_start(n, address, deadline, timeout, min_workers, call, function(pool) {
    line <- remote_line(pool, address, pool$port, "$SLURM_PROCID+0", timeout)
    command <- c(
      srun, sprintf("--ntasks=%d", n), "--overlap", "--kill-on-bad-exit=0", "--label",
      "sh", "-c", launch_rscript(rscript, env)
    )
    list(launch_start(command, line, seq_len(n) - 1, "srun"))
  })
}

slurm_tasks <- function() {
  tasks <- suppressWarnings(as.integer(Sys.getenv("SLURM_NTASKS")))
  if (is.na(tasks)) 1L else tasks
}

# Whether the allocation is this host and no other.
slurm_is_here <- function() {
  host <- sub("[.].*$", "", Sys.info()[["nodename"]])
  identical(Sys.getenv("SLURM_JOB_NODELIST"), host)
}
