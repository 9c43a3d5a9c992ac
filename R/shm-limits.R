# Bytes of shared memory that results may use at a time, and as many that objects may.
shm_limit <- function() {
  limit <- getOption("regatta.shm_max", Inf)
  if (identical(limit, Inf)) Inf else check_bytes(limit, "regatta.shm_max")
}

# Bytes of dropped results that stay allocated for the next ones.
shm_keep <- function() {
  check_bytes(getOption("regatta.shm_keep", 1e9), "regatta.shm_keep", zero = TRUE)
}
