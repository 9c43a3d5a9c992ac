# Where the time of a run's workers went, and what would have been better. What is advised is computed from the
# times of the elements as they were: it is said only where that leaves no doubt, and it is worth it.

# Seconds of all workers: the elapsed time of the run for each.
run_shares <- function(run, spans, phases) {
  workers <- length(unique(run$workers$worker))
  ended <- max(0, spans$end)
  length_of <- function(rows) sum(rows$end - rows$start)
  phase <- function(kind) length_of(cut_at(phases[phases$kind == kind, ], ended))
  put_back <- spans$status == "put back"
  seconds <- c(
    elements = length_of(spans[!spans$retried, ]), "failed tries" = length_of(spans[spans$retried & !put_back, ]),
    "put back" = length_of(spans[put_back, ]),
    "start-up" = phase("start-up"), transfer = phase("transfer"), idle = phase("idle"),
    "after the last element" = workers * max(0, run$elapsed - ended)
  )
  seconds <- c(seconds, "no worker" = max(0, workers * run$elapsed - sum(seconds)))
  data.frame(part = names(seconds), seconds = unname(seconds), share = unname(seconds) / (workers * run$elapsed))
}

# Without what is after `time`.
cut_at <- function(rows, time) {
  rows$start <- pmin(rows$start, time)
  rows$end <- pmin(rows$end, time)
  rows
}

# Sentences by kind: "sequential", "batch", "priority", "workers", "session", "more".
run_advice <- function(run, spans, shares) {
  if (!is_advisable(run, spans)) {
    return(character())
  }
  facts <- advice_facts(run, spans, shares)
  sequential <- advise_sequential(run, facts)
  advice <- c(list(sequential = sequential), list(batch = advise_batch(run, facts)))
  # A smaller batch may be all that is missing, and so may be longer elements.
  if (length(unlist(advice)) == 0L) {
    advice <- list(
      priority = advise_priority(run, facts), workers = advise_workers(facts),
      session = advise_session(run, facts), more = advise_more(run, facts)
    )
  }
  c(character(), unlist(advice))
}

# A failure changes how long elements take, and a run that was not driven to its end has no length of its own.
is_advisable <- function(run, spans) {
  nrow(spans) > 0L && !isFALSE(run$attended) && all(run$elements$status == "done") &&
    nrow(spans) == run$n && !anyDuplicated(run$workers$worker) && run$elapsed > 0
}

advice_facts <- function(run, spans, shares) {
  seconds <- spans$end - spans$start
  first <- spans$start[match(run$workers$worker, spans$worker)]
  gap <- shares$seconds[shares$part == "transfer"] / nrow(spans)
  list(
    elapsed = run$elapsed, work = sum(seconds), ended = max(spans$end),
    seconds = seconds[order(spans$index)] + gap, # with what it takes to come and go
    ready = sort(ifelse(is.na(first), run$workers$start, first)),
    last = spans[which.max(spans$end), ], name = run$names[spans$index[which.max(spans$end)]],
    worth = max(0.1 * run$elapsed, 0.05), share = stats::setNames(shares$share, shares$part)
  )
}

# Of hosts that may be faster than this one nothing is known.
advise_sequential <- function(run, facts) {
  if (all(run$workers$host == "localhost") && facts$elapsed - facts$work > max(0.1 * facts$elapsed, 0.002)) {
    sprintf(
      "The elements took %s in sum, less than the %s of the run: `lapply()` would have been faster. %s",
      format_time(facts$work), format_time(facts$elapsed), "Workers pay when elements take longer or do more each."
    )
  }
}

# When the last element ends if each is begun, in this order, by the worker that is free first. Of many, neighbours are
# taken together, so that the end is later and not earlier than it would be.
schedule_end <- function(seconds, ready, most = 5000L) {
  if (length(seconds) > most) {
    seconds <- as.vector(rowsum(seconds, (seq_along(seconds) - 1L) %/% ceiling(length(seconds) / most)))
  }
  for (length in seconds) {
    k <- which.min(ready)
    ready[[k]] <- ready[[k]] + length
  }
  max(ready)
}

advise_batch <- function(run, facts) {
  batch <- run$control$batch
  if (is.null(batch)) {
    return(NULL)
  }
  if (batch > 1L) {
    end <- schedule_end(facts$seconds, facts$ready)
    if (facts$ended - end > facts$worth) {
      return(sprintf(
        "With `batch = %d` some workers had nothing to do while others still had whole batches: without `batch` %s.",
        batch, would_take(facts, end)
      ))
    }
  }
  each <- mean(facts$seconds)
  if (facts$share[["transfer"]] > 0.2 && batch * each < 0.0025) {
    sprintf(
      "Workers spent %.0f%% of the time on transfer, as they were given %s of %s at a time: %s.",
      100 * facts$share[["transfer"]], count_of(batch, "element", "elements"), format_time(each),
      sprintf("leave `batch` out, or take `batch = %.0f` (10 ms)", 0.01 / each)
    )
  }
}

would_take <- function(facts, end) {
  sprintf(
    "it would have taken about %s, not %s", format_time(facts$elapsed - facts$ended + end), format_time(facts$elapsed)
  )
}

# The longest first.
advise_priority <- function(run, facts) {
  if (!is.null(run$control$priority)) {
    return(NULL)
  }
  end <- schedule_end(sort(facts$seconds, decreasing = TRUE), facts$ready)
  if (facts$ended - end > facts$worth) {
    sprintf(
      "The run ended with %s, which took %s and was begun after %s: with the longest first (`priority`) %s.",
      format_element(facts$last$index, facts$name), format_time(facts$last$end - facts$last$start),
      format_time(facts$last$start), would_take(facts, end)
    )
  }
}

# How few would have been as fast.
advise_workers <- function(facts) {
  workers <- length(facts$ready)
  lost <- sum(facts$share[c("start-up", "idle")])
  if (workers < 2L || lost < 0.25) {
    return(NULL)
  }
  enough <- workers
  while (enough > 1L && schedule_end(facts$seconds, facts$ready[seq_len(enough - 1L)]) <= 1.02 * facts$ended) {
    enough <- enough - 1L
  }
  if (enough < workers) {
    sprintf(
      "%s would have been as fast as %d, as the elements are: these had nothing to do for %.0f%% of the time.",
      count_of(enough, "worker", "workers"), workers, 100 * lost
    )
  }
}

advise_session <- function(run, facts) {
  own <- run$session
  if (!is.null(own) && own > 0.9 * facts$elapsed && facts$share[["elements"]] < 0.7) {
    sprintf(
      "The session itself worked for %s of %s, on values, output and conditions: %s.",
      format_time(own), format_time(facts$elapsed), "more workers would not help, less of these would"
    )
  }
}

# Up to the cores that each worker was given, if the elements have not used these themselves.
advise_more <- function(run, facts) {
  workers <- length(facts$ready)
  cores <- run$cores
  usual <- length(cores) == 1L && is.finite(cores) && cores >= 2 && is.null(run$control$threads)
  if (!usual || facts$share[["elements"]] < 0.85 || run$n < 4L * workers || uses_threads(run)) {
    return(NULL)
  }
  more <- min(cores * workers, run$n %/% 2L)
  end <- schedule_end(facts$seconds, rep(facts$ready[[1L]], more))
  if (facts$ended - end > facts$worth) {
    sprintf(
      "The workers were busy for %.0f%% of the time, and each had %d cores: with %d workers %s at best, %s.",
      100 * facts$share[["elements"]], cores, more, would_take(facts, end),
      "unless the elements use several cores already"
    )
  }
}

# As far as it was measured.
uses_threads <- function(run) {
  known <- !is.na(run$elements$cpu)
  any(known) && sum(run$elements$cpu[known]) > 1.2 * sum((run$elements$end - run$elements$start)[known])
}
