# Output and conditions of the elements, written and signalled again in the parent. "relay": as they
# happen; "capture": in the order of the elements, each as soon as all before it are settled.

relay_new <- function(control, names) {
  relay <- new.env(parent = emptyenv())
  relay$modes <- c(
    stdout = control$stdout, stderr = control$stderr, message = control$messages,
    warning = control$warnings, condition = control$conditions
  )
  relay$names <- names
  relay$partial <- list()
  relay$counts <- c(message = 0, warning = 0, condition = 0, suppressed = 0)
  relay$captures <- "capture" %in% relay$modes
  relay$held <- list()
  relay$next_index <- 1
  relay
}

# Of each of these elements.
relay_prefix <- function(run, index) {
  prefix <- run$task$prefix
  if (!is.null(prefix)) {
    return(prefix(run, index))
  }
  numbers <- sprintf("%.0f: ", index)
  name <- run$relay$names[index]
  if (is.null(name)) numbers else ifelse(is.na(name) | name == "", numbers, paste0(name, ": "))
}

# Most elements write whole lines: as many of them as follow each other are done at once.
relay_output <- function(run, event) {
  index <- event$index
  stream <- event$stream
  ends <- cumsum(event$size)
  broken <- event$text[ends] != newline
  if (!any(broken) && length(run$relay$partial) == 0L) {
    return(relay_text(run, index, stream, event$text, ends))
  }
  broken <- index %in% index[broken] | relay_key(stream, index) %in% names(run$relay$partial)
  stretch <- cumsum(broken | c(TRUE, broken[-length(broken)])) # one that is broken is alone in its own
  for (k in split(seq_along(index), stretch)) {
    before <- ends[[k[[1L]]]] - event$size[[k[[1L]]]]
    text <- event$text[seq.int(before + 1, ends[[k[[length(k)]]]])]
    if (broken[[k[[1L]]]]) {
      relay_piece(run, index[[k]], stream, text)
    } else {
      relay_text(run, index[k], stream, text, ends[k] - before)
    }
  }
}

relay_key <- function(stream, index) paste(stream, index)

# What one element has written; what comes after the last newline waits for another one.
relay_piece <- function(run, index, stream, text) {
  relay <- run$relay
  key <- relay_key(stream, index)
  text <- c(relay$partial[[key]], text)
  end <- max(0L, which(text == newline))
  relay$partial[[key]] <- if (end < length(text)) text[seq.int(end + 1L, length(text))]
  if (end > 0L) {
    relay_text(run, index, stream, text[seq_len(end)])
  }
}

newline <- as.raw(10L)

# `text` is raw and consists of whole lines; those of each element of `index` end at `ends`.
relay_text <- function(run, index, stream, text, ends = length(text)) {
  of <- index[findInterval(which(text == newline), ends, left.open = TRUE) + 1L]
  lines <- strsplit(rawToChar(text[text != as.raw(0L)]), "\n", fixed = TRUE, useBytes = TRUE)[[1L]]
  lines <- paste0(relay_prefix(run, of), lines)
  mode <- run$relay$modes[[stream]]
  if (mode == "relay") {
    return(relay_emit(run, list(stream = stream, lines = lines)))
  }
  for (i in unique(of)) relay_do(run, i, mode, list(stream = stream, lines = lines[of == i]))
}

# Messages of these elements.
relay_messages <- function(run, index, cnds) {
  relay <- run$relay
  relay$counts[["message"]] <- relay$counts[["message"]] + length(index)
  prefix <- rep_len(relay_prefix(run, index), length(index))
  for (k in seq_along(cnds)) {
    text <- cnds[[k]]$message
    if (is.character(text)) cnds[[k]]$message <- paste0(prefix[[k]], text)
  }
  mode <- relay$modes[["message"]]
  if (mode == "relay") {
    emit_messages(run, cnds)
  } else {
    for (k in seq_along(cnds)) relay_do(run, index[[k]], mode, list(kind = "message", cnd = cnds[[k]]))
  }
}

# message() of each: a handler that muffles one leaves those after it.
emit_messages <- function(run, cnds) {
  k <- 0L
  while (k < length(cnds)) {
    withRestarts(
      while (k < length(cnds)) {
        k <- k + 1L
        progress_clear(run$progress)
        signalCondition(cnds[[k]])
        cat(conditionMessage(cnds[[k]]), file = stderr(), sep = "")
      },
      muffleMessage = function() NULL
    )
  }
}

# A warning, or a condition that is neither that nor a message.
relay_condition <- function(run, event) {
  relay <- run$relay
  relay$counts[[event$kind]] <- relay$counts[[event$kind]] + 1
  cnd <- event$cnd
  fate <- NULL
  if (inherits(cnd, "regatta_fate")) {
    fate <- cnd$fate
    cnd <- cnd$cnd
  }
  bare <- cnd
  if (is_progression(cnd)) {
    progress_yield(run$progress)
  }
  if (event$kind == "warning" && is.character(cnd$message)) {
    cnd$message <- paste0(relay_prefix(run, event$index), cnd$message)
  }
  item <- list(kind = event$kind, cnd = cnd)
  if (event$kind == "warning") item[c("bare", "fate")] <- list(bare, fate)
  relay_do(run, event$index, relay$modes[[event$kind]], item)
}

relay_suppressed <- function(run, event) {
  relay <- run$relay
  relay$counts[["suppressed"]] <- relay$counts[["suppressed"]] + event$count
  most <- if (is.null(event$most)) run$control$max_conditions else event$most # one that a checkpoint has kept
  text <- sprintf(
    "%s%.0f more %ss (`max_conditions` is %.0f)",
    relay_prefix(run, event$index), event$count, event$kind, most
  )
  cnd <- if (event$kind == "warning") {
    simpleWarning(text)
  } else {
    simpleMessage(paste0(text, "\n"))
  }
  kind <- if (event$kind == "warning") "warning" else "message"
  relay_do(run, event$index, relay$modes[[event$kind]], list(kind = kind, cnd = cnd, bare = cnd))
}

relay_do <- function(run, index, mode, item) {
  if (mode == "relay") {
    relay_emit(run, item, index)
  } else if (mode == "capture") {
    key <- as.character(index)
    run$relay$held[[key]] <- c(run$relay$held[[key]], list(item))
  }
}

relay_emit <- function(run, item, index = NULL) {
  progress_clear(run$progress)
  if (!is.null(item$stream)) {
    to <- if (item$stream == "stdout") stdout() else stderr()
    writeLines(item$lines, to, useBytes = TRUE)
    return(invisible())
  }
  switch(item$kind,
    message = emit_messages(run, list(item$cnd)),
    warning = relay_warning(run, item, index),
    condition = signal_progression(item$cnd)
  )
  invisible()
}

# Handlers first, as in warning(), then options(warn = ): the element's own, or the session's. An error that the
# session's makes of a warning is that of its element, if the element has not ended: `index`, NULL of what was held.
relay_warning <- function(run, item, index) {
  own <- item$fate$warn
  if (!is.null(own)) {
    old <- options(warn = own)
    on.exit(options(old))
  } else if (getOption("warn") >= 2 && !is.null(index) && run$tasks$tries[[index]] > 0L) {
    unheard <- withRestarts(
      {
        signalCondition(item$cnd)
        TRUE
      },
      muffleWarning = function() FALSE
    )
    if (unheard) turn_element(run, index, item)
    return(invisible())
  }
  warning(item$cnd)
}

# Elements whose fate is known: what they printed without a newline is complete now.
relay_settled <- function(run, indices) {
  relay <- run$relay
  if (length(relay$partial) > 0L) {
    for (stream in c("stdout", "stderr")) {
      keys <- relay_key(stream, indices)
      for (i in which(keys %in% names(relay$partial))) {
        text <- relay$partial[[keys[[i]]]]
        relay$partial[[keys[[i]]]] <- NULL
        relay_text(run, indices[[i]], stream, c(text, newline))
      }
    }
  }
  if (relay$captures) {
    relay_advance(run)
  }
}

relay_advance <- function(run) {
  relay <- run$relay
  status <- run$status
  index <- relay$next_index
  # Most elements of most runs have nothing to say.
  while (index <= run$n && status[[index]] != 0L) {
    if (length(relay$held) > 0L) relay_release(run, index)
    index <- index + 1
  }
  relay$next_index <- index
}

relay_release <- function(run, index) {
  key <- as.character(index)
  items <- run$relay$held[[key]]
  run$relay$held[[key]] <- NULL
  for (item in items) {
    relay_emit(run, item)
  }
}

# The run has ended: what is still held belongs to elements after one that stopped it.
relay_flush <- function(run) {
  if (length(run$relay$partial) + length(run$relay$held) == 0L) {
    return(invisible())
  }
  keys <- strsplit(as.character(names(run$relay$partial)), " ", fixed = TRUE)
  for (key in keys) {
    text <- run$relay$partial[[relay_key(key[[1L]], key[[2L]])]]
    relay_text(run, as.numeric(key[[2L]]), key[[1L]], c(text, newline))
  }
  run$relay$partial <- list()
  for (index in sort(as.numeric(names(run$relay$held)))) {
    relay_release(run, index)
  }
}
