# Claim: a map over two hosts of which one is cut off midway takes little longer than what is left on the other, and an
# object of 1 GB for four workers on each of two hosts crosses the link to each once.
# The hosts are network namespaces of this machine, which root alone can make: see tests/testthat/helper-remote-net.R.
source("bench/bench.R")
suppressPackageStartupMessages({
  library(testthat)
  library(regatta)
})
helpers <- new.env(parent = asNamespace("regatta"))
for (file in list.files("tests/testthat", "^helper-.*[.]R$", full.names = TRUE)) sys.source(file, helpers)

rounds <- if (bench_short) 1L else 3L
control <- function(...) par_control(progress = FALSE, dump = "no", ...)
# What is made for it goes when the block is left.
local({
  hosts <- tryCatch(
    list(helpers$local_far_host(1L), helpers$local_far_host(2L)),
    skip = function(e) {
      cat("skipped: hosts,", conditionMessage(e), "\n")
      quit(status = 0L)
    }
  )

  # "ssh" to the hosts "one" and "two" runs what it is told in their namespaces. An address of this end is one that both
  # can reach.
  script <- tempfile("ssh-")
  writeLines(c(
    "#!/bin/sh", "for last; do name=$before; before=$last; done",
    sprintf("if [ $name = %s ]; then exec %s sh -c \"$last\"; fi", c("one", "two"), vapply(hosts, `[[`, "", "wrap"))
  ), script)
  Sys.chmod(script, "755")
  for (host in hosts) helpers$ip_command("-n", host$name, "route", "add", "default", "via", host$address)
  pair <- function(workers, deadline) {
    cluster_ssh(
      c("one", "two"), workers, helpers$remote_rscript(), helpers$remote_env(), script,
      tunnel = FALSE, address = hosts[[1L]]$address, timeout = 60, deadline = deadline
    )
  }

  # 120 tasks of 0.1 s on two workers of each host, of which one host is cut off after 1.5 s: the others then need 3 s for
  # what is left.
  deadline <- 3
  tasks <- 120L
  task <- 0.1
  ideal <- list("without a cut" = tasks * task / 4, "cut off midway" = 1.5 + (tasks * task - 4 * 1.5) / 2)
  map <- function(cluster, cut) {
    flag <- tempfile()
    if (cut) {
      device <- hosts[[2L]]$near
      system(sprintf("sleep 1.5; ip link set %s down; touch %s", device, flag), wait = FALSE)
    }
    begun <- bench_now()
    got <- par_lapply(seq_len(tasks), function(i) {
      Sys.sleep(0.1)
      i
    }, .on = cluster, .control = control(retries = 2L))
    seconds <- bench_now() - begun
    stopifnot(identical(got, as.list(seq_len(tasks))))
    if (cut) {
      helpers$wait_until(file.exists(flag))
      helpers$cut_off(hosts[[2L]], "down", undo = TRUE)
      # It is there again for the next round.
      helpers$wait_until(all(cluster_status(cluster)$state == "idle"), 60)
    }
    seconds
  }
  cluster <- pair(2, deadline)
  samples <- vapply(c(FALSE, TRUE), function(cut) vapply(seq_len(rounds), function(k) map(cluster, cut), 0), numeric(rounds))
  samples <- matrix(samples, rounds)
  helpers$stop_remote(cluster)
  rows <- NULL
  for (k in 1:2) {
    both <- cbind(ideal[[k]], samples[, k])
    colnames(both) <- c("ideal", "regatta")
    rows <- rbind(rows, bench_print(bench_summary(
      sprintf("120 tasks of 0.1 s on two hosts, %s, given up after %g s", names(ideal)[[k]], deadline), both
    )))
  }

  # Bytes that have gone to each host, in multiples of the object; numbers that do not compress.
  size <- if (bench_short) 1e8 else 1e9
  object <- runif(size / 8)
  wanted <- sum(object)
  sent <- function() {
    vapply(hosts, function(host) as.double(readLines(file.path("/sys/class/net", host$near, "statistics/tx_bytes"))), 0)
  }
  cluster <- pair(4, 60)
  came <- tempfile("came-")
  dir.create(came)
  use <- function(i) {
    # all eight are to have it
    file.create(file.path(came, Sys.getpid()))
    while (length(list.files(came)) < 8L) Sys.sleep(0.01)
    c(sum(object), Sys.getpid())
  }
  before <- sent()
  seconds <- bench_elapsed(function() {
    got <- par_lapply(1:8, use, .on = cluster, .control = control(batch = 1L))
    stopifnot(vapply(got, `[[`, 0, 1L) == wanted, !anyDuplicated(vapply(got, `[[`, 0, 2L)))
  })
  crossed <- (sent() - before) / size
  helpers$stop_remote(cluster)
  cell <- sprintf("%g MB to four workers on each of two hosts", size / 1e6)
  rows <- rbind(rows, bench_print(bench_summary(cell, matrix(seconds, 1L, dimnames = list(NULL, "regatta")))))
  cell <- sprintf("bytes over each link for %g bytes", size)
  crossing <- matrix(crossed * size, ncol = 1L, dimnames = list(NULL, "regatta"))
  rows <- rbind(rows, bench_summary(cell, crossing))
  cat(sprintf("\n%s: %s\n", cell, toString(round(crossing))))

  aim <- function(what, value, limit) {
    cat(sprintf("aim: %s at most %g: %.3g, %s\n", what, limit, value, if (value <= limit) "met" else "missed"))
  }
  cut <- rows$cell == rows$cell[[4L]]
  aim("a map of which one host is cut off, of the ideal", rows$median_s[cut][[2L]] / rows$median_s[cut][[1L]], 1.3)
  aim("what crosses each link, of the object", max(crossed), 1.05)
  bench_write("hosts", rows)
})
