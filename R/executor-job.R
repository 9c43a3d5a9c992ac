# What workers that do not inherit the session need to know of a run, and how a worker is with it and after it.

job_of <- function(plan) {
  globals <- globals_of(code_of(plan$replay), plan$replay$env)
  list(
    loop = plan$loop, control = plan$control, seed = plan$seed, share = plan$share,
    variables = globals$variables, packages = globals$packages
  )
}

# For workers that read the memory of this process: what closure_pack() returns, to be kept as long as they
# may, and its bytes as one `stream`.
job_pack <- function(job) {
  packed <- closure_pack(job, share_from(job$control), near = TRUE)
  packed$stream <- send_handles(TRUE, serialize(packed$bytes, NULL, xdr = FALSE))
  packed
}

# Bytes from which on a vector is shared with workers that can read it.
share_from <- function(control) if (control$shm) control$share_min else Inf

# In a worker: attaches packages, sets the variables of the session, the share of the cores. Returns how it
# was, for job_reset().
job_set <- function(job) {
  for (package in job$packages) {
    library(package, character.only = TRUE)
  }
  undo <- list(
    variables = set_globals(job$variables), seed = globalenv()$.Random.seed,
    env = Sys.getenv(c("REGATTA_SHARE", "REGATTA_TRY"), NA, names = TRUE), cores = getOption("mc.cores")
  )
  fork_worker_share(job)
  undo
}

job_reset <- function(undo) {
  reset_globals(undo$variables)
  rng_use(undo$seed)
  restore_env(undo$env)
  options(mc.cores = undo$cores)
}
