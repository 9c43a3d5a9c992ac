# Claim: an interrupt ends every kind of loop and wait in less than 150 ms. Each takes about two
# seconds when it is left alone; bodies do not look for interrupts, but that of Thread::join does.
source("bench/bench.R")
source("bench/threads-common/measure.R")

driver <- open_driver()
rounds <- if (bench_short) 3L else 11L
waits <- lapply(stats::setNames(driver$peers, driver$peers),
                function(peer) .Call(driver$dll$bench_waits, peer))
waits <- waits[lengths(waits) > 0L]

# Not always at the same point of the period of the polling.
set.seed(1)
latency <- function(wait) {
  function(peer) {
    .Call(driver$dll$bench_interrupt, peer, match(wait, waits[[peer]]), stats::runif(1, 0.05, 0.3))
  }
}

# A negative time says that the work was given up before its interrupt came, as one that was left
# over from an earlier interrupt does: no latency to compare, and an error if it is ours.
without_unfinished <- function(samples, wait) {
  early <- colSums(samples < 0)
  for (peer in names(early)[early > 0]) {
    cat(sprintf("\nleft out: %s returned before its interrupt in %d of %d rounds of %s\n", peer,
                early[[peer]], nrow(samples), wait))
  }
  if (early[["regatta"]] > 0) stop("regatta returned before its work was done")
  structure(samples[, early == 0, drop = FALSE], others_cpu = attr(samples, "others_cpu"))
}

rows <- NULL
for (wait in unique(unlist(waits))) {
  peers <- names(Filter(function(has) wait %in% has, waits))
  samples <- without_unfinished(measure_in_turns(peers, rounds, latency(wait)), wait)
  rows <- rbind(rows, cell_rows(driver, paste("interrupt:", wait), samples))
}
worst <- max(rows$max_s[rows$peer == "regatta"])
cat(sprintf("\naim: the longest of regatta at most 150 ms: %s, %s\n", bench_seconds(worst),
            if (worst <= 0.15) "met" else "missed"))
bench_write("threads-interrupt", rows)
