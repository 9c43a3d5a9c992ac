# A record as the driver makes it, without a run. Elements of the given lengths in seconds go to
# whichever worker is free first, with a `lag` before each.
record_of <- function(seconds, workers = 2L, names = NULL, failed = integer(), how = "error",
                      retried = integer(), lag = 0.001) {
  states <- run_states
  n <- length(seconds)
  free <- rep(lag, workers)
  worker <- integer(n)
  start <- numeric(n)
  for (i in seq_len(n)) {
    worker[[i]] <- which.min(free)
    start[[i]] <- free[[worker[[i]]]]
    free[[worker[[i]]]] <- start[[i]] + seconds[[i]] + lag
  }
  status <- rep("done", n)
  status[failed] <- how
  elements <- data.frame(
    index = seq_len(n), worker = worker, pid = 1000L + worker, start = start,
    end = start + seconds, try = rep(1L, n), status = factor(status, levels = states),
    bytes = rep(100, n)
  )
  tries <- elements[retried, ]
  tries$end <- (tries$start + tries$end) / 2
  tries$status[] <- "error"
  elements$start[retried] <- tries$end
  elements$try[retried] <- 2L
  elapsed <- max(free)
  structure(
    list(
      call = quote(par_lapply(X = cities, FUN = fit)), verb = "par_lapply",
      start = as.POSIXct("2013-01-02 03:04:05"), elapsed = elapsed, n = n, names = names,
      control = NULL, executor = "fork", cores = 1L, elements = elements, tries = tries,
      workers = data.frame(
        worker = seq_len(workers), host = rep("localhost", workers), pid = 1000L + seq_len(workers), start = rep(0, workers),
        end = rep(elapsed, workers), exit = rep("stopped", workers),
        peak_memory = rep(2e8, workers), elements = tabulate(worker, workers)
      ),
      conditions = c(message = 2, warning = 1, condition = 0, suppressed = 0)
    ),
    class = "regatta_run"
  )
}
