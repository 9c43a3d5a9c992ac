# Measuring C++ peers in turns, in one process. The timing itself is inside the driver, so that a
# cell of some nanoseconds is not drowned in the cost of a call from R.

# Threads of one peer may go on spinning for some milliseconds after its turn (libgomp does, for
# 8 ms of CPU time); they must be asleep before the next peer is timed.
settle_seconds <- 0.02

# A sample shorter than this is repeated inside the timed block.
sample_seconds <- 0.002

# Processors in use by others above which a round is not counted as quiet.
quiet_processors <- 0.1

peer_order <- c("serial", "std::thread", "R_CheckUserInterrupt", "regatta", "RcppThread",
                "RcppParallel", "oneTBB", "OpenMP static", "OpenMP dynamic", "OpenMP guided",
                "OpenMP task")

# What is not a rival but a measure of all.
yardsticks <- c("serial", "std::thread", "R_CheckUserInterrupt")

open_driver <- function(threads = 2L, data = 1e6, room = 1e5) {
  common <- file.path("bench", "threads-common")
  source(file.path(common, "build.R"), local = TRUE)
  driver <- build_driver(common)
  set.seed(1)
  .Call(driver$dll$bench_setup, stats::rnorm(data), as.double(room), as.integer(threads))
  driver$peers <- intersect(peer_order, .Call(driver$dll$bench_peers))
  driver
}

time_calls <- function(driver, peer, cell, sizes, times = 1L, warm = 0L) {
  .Call(driver$dll$bench_time, peer, cell, as.integer(sizes), as.integer(times), as.integer(warm))
}

# How many calls fill one sample; NA if the peer has no such cell.
calls_per_sample <- function(driver, peer, cell, sizes) {
  times <- 1
  repeat {
    seconds <- time_calls(driver, peer, cell, sizes, times, warm = 1L)
    if (is.na(seconds)) return(NA_real_)
    if (seconds * times >= sample_seconds || times >= 1e6) return(times)
    times <- min(1e6, max(2 * times, ceiling(1.2 * sample_seconds / seconds)))
  }
}

# Seconds per call, one row per round and one column per peer that has the cell. `cold`: each
# sample is a single call after a pause, so that it finds all threads asleep.
measure_calls <- function(driver, cell, sizes, rounds, cold = FALSE) {
  calls <- vapply(driver$peers, function(peer) calls_per_sample(driver, peer, cell, sizes), 0)
  calls <- calls[!is.na(calls)]
  timer <- function(peer) {
    Sys.sleep(if (cold) 0.05 else settle_seconds)
    times <- if (cold) 1L else calls[[peer]]
    time_calls(driver, peer, cell, sizes, times, warm = if (cold) 0L else ceiling(times / 4))
  }
  measure_in_turns(names(calls), rounds, timer)
}

# Other work on the machine is no reason to believe a peer slow. A round in which other processes
# used more than a tenth of a processor is measured anew, up to twice as often as asked for; the
# quietest rounds count, and what others used during those is kept beside the samples.
measure_in_turns <- function(peers, rounds, timer) {
  samples <- matrix(NA_real_, 0L, length(peers), dimnames = list(NULL, peers))
  others <- numeric()
  while (sum(others <= quiet_processors) < rounds && length(others) < 3L * rounds) {
    before <- cpu_used()
    turns <- peers[(seq_along(peers) + length(others)) %% length(peers) + 1L]
    round <- bench_measure(stats::setNames(turns, turns), 1L, timer, warm = 0L)
    used <- cpu_used() - before
    samples <- rbind(samples, round[, peers])
    others <- c(others, max(0, (used[["machine"]] - used[["self"]]) / used[["elapsed"]]))
  }
  quietest <- order(others)[seq_len(rounds)]
  structure(samples[quietest, , drop = FALSE], others_cpu = mean(others[quietest]))
}

# Seconds so far: of CPU time of the whole machine and of this process, and of wall clock. Where
# there is no /proc/stat, the machine counts as having done nothing else.
cpu_used <- function() {
  self <- sum(proc.time()[c("user.self", "sys.self")])
  machine <- self
  if (file.exists("/proc/stat")) {
    ticks <- as.numeric(strsplit(readLines("/proc/stat", n = 1L), " +")[[1L]][-1L])
    # User, nice and system time; Linux reports hundredths of a second here on every platform.
    machine <- sum(ticks[1:3]) / 100
  }
  c(machine = machine, self = self, elapsed = bench_now())
}

# `per`: how many of the counted things one call of the cell does.
cell_rows <- function(driver, name, samples, per = 1) {
  base <- intersect(yardsticks, colnames(samples))
  rows <- bench_summary(name, samples / per, c(base, colnames(samples))[[1L]])
  rows$version <- unname(driver$versions[rows$peer])
  rivals <- rows$median_s[!rows$peer %in% c(yardsticks, "regatta")]
  rows$times_fastest_peer <- if (length(rivals)) rows$median_s / min(rivals) else NA_real_
  rows$others_cpu <- attr(samples, "others_cpu")
  print_rows(rows)
}

print_rows <- function(rows) {
  cat("\n", rows$cell[[1L]], "\n", sep = "")
  if (rows$others_cpu[[1L]] > quiet_processors) {
    cat(sprintf("  disturbed: other processes used %.1f processors meanwhile\n",
                rows$others_cpu[[1L]]))
  }
  beside <- ifelse(is.na(rows$times_fastest_peer), "",
                   sprintf(", %.3g of the fastest peer", rows$times_fastest_peer))
  cat(sprintf("  %-*s %9s  (%s to %s)  %.3g of %s%s\n", max(nchar(rows$peer)), rows$peer,
              bench_seconds(rows$median_s), bench_seconds(rows$min_s), bench_seconds(rows$max_s),
              rows$times_yardstick, rows$peer[[1L]], beside), sep = "")
  invisible(rows)
}

run_cell <- function(driver, name, cell, sizes, rounds, per = 1, cold = FALSE) {
  cell_rows(driver, name, measure_calls(driver, cell, sizes, rounds, cold), per)
}

# A peer that is fast because it left something out must not win.
expect_same_results <- function(driver, cell, sizes, count) {
  results <- function(peer) {
    seconds <- time_calls(driver, peer, cell, sizes)
    if (is.na(seconds)) NULL else .Call(driver$dll$bench_results, as.double(count))
  }
  wanted <- results("serial")
  if (!any(wanted != 0)) stop("the serial loop of the cell ", cell, " computed nothing")
  for (peer in setdiff(driver$peers, "serial")) {
    got <- results(peer)
    if (!is.null(got) && !identical(got, wanted)) {
      stop(sum(got != wanted), " of the ", count, " results of ", peer, " in the cell ", cell,
           " differ from those of the serial loop")
    }
  }
}

# As many rounds as fit in about half a minute for all peers, 21 at most and 5 at least.
rounds_for <- function(driver, cell, sizes) {
  if (bench_short) return(5L)
  seconds <- time_calls(driver, "serial", cell, sizes)
  as.integer(min(21, max(5, 30 / (seconds * length(driver$peers)))))
}

count_label <- function(count) format(count, big.mark = ",", scientific = FALSE)

# Says for each cell how the median of regatta relates to that of the peer `beside` (NULL: of the
# fastest one), and whether that is at most `limit`.
print_aims <- function(rows, beside, limit) {
  for (cell in split(rows, factor(rows$cell, unique(rows$cell)))) {
    ours <- cell[cell$peer == "regatta", ]
    ratio <- if (is.null(beside)) ours$times_fastest_peer
             else ours$median_s / cell$median_s[cell$peer == beside]
    if (length(ratio) == 0L || is.na(ratio)) next
    cat(sprintf("aim: %s, times %s, at most %.3g: %.3g, %s\n", cell$cell[[1L]],
                if (is.null(beside)) "fastest peer" else beside, limit, ratio,
                if (ratio <= limit) "met" else "missed"))
  }
}

# The noise of a cell on a machine that does nothing else is 15 to 20 per cent.
noise <- 1.2

print_peer_aims <- function(rows) {
  cat("\n")
  print_aims(rows, NULL, noise)
  # Never slower; medians of equal peers differ by some per cent.
  print_aims(rows, "RcppThread", 1.05)
}
