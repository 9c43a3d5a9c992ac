# Workers of Slurm. In an allocation one srun brings an agent to each of its hosts, which is quicker than one
# for each; they have their secret from srun's stdin. Outside of one, on a login node, an array of jobs
# brings an agent with each of its tasks; the secret is in the job's script, which the user and the
# administrators can read. Their numbers are from Slurm.

cluster_slurm <- function(n = NULL, rscript = file.path(R.home("bin"), "Rscript"), env = NULL,
                          srun = "srun", sbatch = "sbatch", template = character(), address = NULL,
                          packages = NULL, timeout = 60, deadline = 20, min_workers = 1) {
  call <- sys.call()
  in_job <- nzchar(Sys.getenv("SLURM_JOB_ID"))
  if (!in_job && is.null(n)) {
    abort_argument("n", n, "given outside of an allocation of Slurm, where `sbatch` is asked for so many tasks")
  }
  n <- check_count(if (is.null(n)) slurm_tasks() else n, "n")
  rscript <- check_words(rscript, "rscript")
  srun <- check_words(srun, "srun")
  sbatch <- check_words(sbatch, "sbatch")
  if (!is.character(template) || anyNA(template)) {
    abort_argument("template", template, "lines of the job's script, such as \"#SBATCH --time=1:00:00\"")
  }
  env <- check_env(env)
  check_string(address, "address", null = TRUE)
  timeout <- check_seconds(timeout, "timeout")
  deadline <- check_deadline(deadline)
  min_workers <- check_count(min_workers, "min_workers", min = 0)
  if (is.null(address)) {
    if (!in_job || !slurm_is_here()) {
      abort_argument("address", address, paste(
        "the address of this host as the hosts of Slurm know it (what is sent to them",
        "is not encrypted)"
      ))
    }
    address <- "127.0.0.1"
  }
  check_command(if (in_job) srun else sbatch, if (in_job) "srun" else "sbatch")
  packages <- check_packages(packages)
  need_crypto(call)
  workers <- if (in_job) slurm_workers(n, slurm_per_host()) else rep(1L, n)
  names <- paste(if (in_job) "srun" else "sbatch", seq_along(workers))
  pool <- remote_pool(workers, names, address, deadline, packages, function(pool, at, numbers) {
    list(if (in_job) {
      srun_launch(pool, at, numbers, rscript, env, srun)
    } else {
      sbatch_launch(pool, at, numbers, rscript, env, sbatch, template)
    })
  }, if (in_job) start_patience(timeout) else Inf)
  remote_start(pool, timeout, min_workers, call)
}

# The first word of a command is a program of this machine.
check_command <- function(x, argument, call = rlang::caller_env()) {
  if (!nzchar(Sys.which(x[[1L]]))) {
    must <- paste(
      "a command of this machine, and there is none of that name: call it where Slurm has its own,",
      "on a login node"
    )
    abort_argument(argument, x, must, call = call)
  }
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

# One job, an array with a task for each of the hosts.
sbatch_launch <- function(pool, at, numbers, rscript, env, sbatch, template) {
  line <- remote_line(pool, pool$address, pool$port, sprintf("$SLURM_ARRAY_TASK_ID+%.0f", numbers[[1L]]))
  spec <- job_systems$slurm
  spec$submit <- c(sbatch, "--parsable")
  lines <- c(sprintf("#SBATCH --array=0-%d", length(at) - 1L), template)
  script <- c(job_secret(line), launch_rscript(rscript, env))
  job_launch(spec, job_script(job_template(spec$template, lines, NULL), script), at, "sbatch")
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
