# Workers on hosts that ssh reaches. One ssh for each host, all at the same time, brings that host's agent,
# which has the workers, and the tunnel by which it reaches the session, which listens on its own machine
# only.

cluster_ssh <- function(hosts, workers = 1, rscript = "Rscript", env = NULL, ssh = "ssh",
                        tunnel = TRUE, address = NULL, packages = NULL, timeout = 60, deadline = 20,
                        min_workers = 1) {
  if (missing(hosts) || !is.character(hosts) || length(hosts) == 0L || anyNA(hosts) || !all(nzchar(hosts)) ||
    any(startsWith(hosts, "-"))) {
    abort_argument("hosts", hosts, "names of hosts, such as \"name\" or \"user@name\"")
  }
  if (!is.numeric(workers) || !length(workers) %in% c(1L, length(hosts)) || anyNA(workers) ||
    any(workers < 1 | workers != round(workers) | workers > .Machine$integer.max)) {
    abort_argument("workers", workers, "positive whole numbers, one for all hosts or one for each")
  }
  rscript <- check_words(rscript, "rscript")
  ssh <- check_words(ssh, "ssh")
  env <- check_env(env)
  check_flag(tunnel, "tunnel")
  check_string(address, "address", null = TRUE)
  if (tunnel == !is.null(address)) {
    abort_argument("address", address, if (tunnel) "`NULL` with a tunnel" else "given without a tunnel")
  }
  timeout <- check_seconds(timeout, "timeout")
  deadline <- check_deadline(deadline)
  need_crypto(sys.call())
  workers <- as.integer(rep_len(workers, length(hosts)))
  min_workers <- check_count(min_workers, "min_workers", min = 0)
  packages <- check_packages(packages)
  listen <- if (tunnel) "127.0.0.1" else address
  pool <- remote_pool(workers, hosts, listen, deadline, packages, function(pool, at, numbers) {
    lapply(seq_along(at), function(i) {
      ssh_launch(pool, hosts[[at[[i]]]], at[[i]], numbers[[i]], rscript, env, ssh, tunnel)
    })
  }, start_patience(timeout))
  remote_start(pool, timeout, min_workers, sys.call())
}

ssh_launch <- function(pool, name, host, number, rscript, env, ssh, tunnel) {
  port <- if (tunnel) ssh_far_port() else pool$port
  line <- remote_line(pool, if (tunnel) "127.0.0.1" else pool$address, port, number)
  forward <- sprintf("127.0.0.1:%d:127.0.0.1:%d", port, pool$port)
  command <- c(
    ssh, "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
    if (tunnel) c("-o", "ExitOnForwardFailure=yes", "-R", forward), "--", name,
    paste("sh -c", shQuote(launch_rscript(rscript, env)))
  )
  launch_start(command, line, host, name)
}

# A port of the other host that is most likely free; if it is not, ssh says so and ends. Not from R's
# generator, whose state is the user's.
ssh_far_port <- function() {
  bytes <- as.integer(.Call(ffi_crypto_random, 2L))
  20000L + (bytes[[1L]] * 256L + bytes[[2L]]) %% 12000L
}

check_words <- function(x, argument, call = rlang::caller_env()) {
  if (!is.character(x) || length(x) == 0L || anyNA(x) || !nzchar(x[[1L]])) {
    abort_argument(argument, x, "a command, with its arguments as further strings", call = call)
  }
  x
}

check_env <- function(x, call = rlang::caller_env()) {
  names <- names(x)
  ok <- length(x) == 0L || (is.character(x) && !anyNA(x) && length(names) == length(x) &&
    all(grepl("^[A-Za-z_][A-Za-z0-9_]*$", names)))
  if (!ok) {
    abort_argument("env", x, "strings with names of variables", call = call)
  }
  x
}

check_deadline <- function(x, call = rlang::caller_env()) {
  if (!is_number(x) || x < 2 || is.infinite(x)) {
    abort_argument("deadline", x, "at least 2 seconds and finite", call = call)
  }
  as.double(x)
}
