# Workers in an allocation of Slurm: one srun brings an agent to each of its hosts, which is quicker than one
# for each. They have their secret from srun's stdin, and their number from Slurm.

cluster_slurm <- function(n = NULL, rscript = file.path(R.home("bin"), "Rscript"), env = NULL,
                          srun = "srun", address = NULL, packages = NULL, timeout = 60,
                          deadline = 20, min_workers = 1) {
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
  packages <- check_packages(packages)
  need_crypto(call)
  workers <- slurm_workers(n, slurm_per_host())
  pool <- remote_pool(workers, paste("srun", seq_along(workers)), address, deadline, packages,
    function(pool, at, numbers) list(srun_launch(pool, at, numbers, rscript, env, srun)))
  remote_start(pool, timeout, min_workers, call)
}

# The first start is one step for all hosts, in their order; one that was lost gets a step of its own, on
# that host.
srun_launch <- function(pool, at, numbers, rscript, env, srun) {
  line <- remote_line(pool, pool$address, pool$port, sprintf("$SLURM_PROCID+%.0f", numbers[[1L]]))
  where <- if (length(at) == 1L && length(pool$hosts) > 1L) {
    c("--nodes=1", paste0("--relative=", at - 1L))
  } else {
    paste0("--nodes=", length(at))
  }
  command <- c(
    srun, where, sprintf("--ntasks=%d", length(at)), "--ntasks-per-node=1", "--cpu-bind=none", "--overlap",
    "--kill-on-bad-exit=0", "--label", "sh", "-c", launch_rscript(rscript, env)
  )
  launch_start(command, line, at, "srun")
}

# How many tasks each host of the allocation has: "2(x3),1" are four hosts.
slurm_per_host <- function(text = Sys.getenv("SLURM_TASKS_PER_NODE")) {
  parts <- strsplit(text, ",", fixed = TRUE)[[1L]]
  if (length(parts) == 0L || !all(grepl("^[0-9]+([(]x[0-9]+[)])?$", parts))) {
    return(slurm_tasks())
  }
  each <- as.integer(sub("[(].*$", "", parts))
  times <- ifelse(grepl("x", parts), sub("^.*x([0-9]+).*$", "\\1", parts), "1")
  rep(each, as.integer(times))
}

# n workers on hosts that have places for so many, in turns if they are more.
slurm_workers <- function(n, places) {
  seats <- rep_len(rep(seq_along(places), places), max(n, sum(places)))
  if (n <= sum(places)) {
    # each host gets one before any gets a second
    seats <- order(sequence(places), rep(seq_along(places), places))
    seats <- rep(seq_along(places), places)[seats]
  }
  counts <- tabulate(seats[seq_len(n)], length(places))
  counts[counts > 0L]
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
