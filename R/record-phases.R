# What the workers of a run did when they ran no element. A phase is a row: worker, pid, start, end and kind:
#   start-up   of a process, from the beginning of the run or the end of the one before it in its place, to its first
#              element
#   transfer   between two elements: a value goes, the next element comes
#   idle       there was nothing to be begun: before an element that is run again, and at the end

phase_kinds <- c("start-up", "transfer", "idle")

run_phases <- function(run, spans = run_spans(run)) {
  workers <- run$workers
  begun <- process_begun(workers)
  there <- pmin(pmax(workers$start, begun), workers$end)
  process <- process_of(spans, workers)
  first <- !duplicated(process)
  before <- c(NA, spans$end)[seq_len(nrow(spans))]
  before[first] <- begun[process[first]]
  ready <- before
  ready[first] <- there[process[first]]
  offered <- spans_offered(run, spans)
  waited <- offered > ready
  from <- ifelse(waited, ready, spans$start)
  until <- ifelse(waited, pmin(offered, spans$start), spans$start)
  last <- there
  last[process] <- spans$end # in the order of time: the latest of each
  none <- !seq_len(nrow(workers)) %in% process
  rows <- rbind(
    phase_rows(spans, before, from, ifelse(first, "start-up", "transfer")),
    phase_rows(spans, from, until, "idle"),
    phase_rows(spans, until, spans$start, "transfer"),
    phase_rows(workers[none, ], begun[none], there[none], "start-up"),
    phase_rows(workers, last, workers$end, "idle")
  )
  rows[order(rows$worker, rows$start), ]
}

phase_rows <- function(of, start, end, kind) {
  kind <- factor(rep_len(kind, nrow(of)), levels = phase_kinds)
  data.frame(worker = of$worker, pid = of$pid, start = start, end = end, kind = kind)[end > start, ]
}

# The beginning of the run, or the end of the process before in the same place.
process_begun <- function(workers) {
  begun <- numeric(nrow(workers))
  for (rows in split(seq_len(nrow(workers)), workers$worker)) {
    rows <- rows[order(workers$start[rows])]
    begun[rows] <- pmin(c(0, workers$end[rows[-length(rows)]]), workers$start[rows])
  }
  begun
}

# Since when an element could have been begun: a further try when the one before it had failed. Of a run that somebody
# drives who asks for values it is not known.
spans_offered <- function(run, spans) {
  if (isFALSE(run$attended)) {
    return(spans$start)
  }
  offered <- numeric(nrow(spans))
  again <- which(spans$try > 1L)
  key <- function(rows, try) paste(rows$index, try)
  earlier <- match(key(spans[again, ], spans$try[again] - 1L), key(run$tries, run$tries$try))
  offered[again] <- ifelse(is.na(earlier), 0, run$tries$end[earlier])
  offered
}
