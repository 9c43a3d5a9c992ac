# Progress through progressr, where the user has set it up: handlers(global = TRUE) or a call within
# with_progress().

progressr_backend <- function(total) {
  if (!progressr_listens()) {
    return(NULL)
  }
  step <- NULL
  shown <- 0
  # Begun with the first element that is done and not before: elements that report to a progressor
  # of the user's have been heard by then, and a second progressor would end the user's own.
  show <- function(p, now) {
    if (is.null(step) && p$done > 0) {
      step <<- progressr::progressor(steps = total, on_exit = FALSE, auto_finish = FALSE)
    }
    if (p$done > shown) {
      step(message = as.character(progress_failed(p)), amount = p$done - shown)
      shown <<- p$done
    }
  }
  end <- function(p, now) {
    show(p, now)
    # Of a run that ends early progressr learns by the error or the interrupt itself.
    if (!is.null(step) && p$done >= total) {
      step(type = "finish")
    }
  }
  list(show = show, erase = function() FALSE, end = end, delay = 0, yields = TRUE)
}

progressr_listens <- function() {
  if (!isNamespaceLoaded("progressr")) {
    return(FALSE)
  }
  isTRUE(progressr::handlers(global = NA)) || progressr_within()
}

# progressr does not say whether with_progress() is at work: its call is looked for on the stack.
progressr_within <- function() {
  for (i in seq_len(sys.nframe())) {
    if (identical(sys.function(i), progressr::with_progress)) {
      return(TRUE)
    }
  }
  FALSE
}

# Whether an element has signalled it by a progressor.
is_progression <- function(cnd) inherits(cnd, "progression")

# Signals a condition of any kind: that of a progressor has a restart, by which progressr's handler ends.
signal_progression <- function(cnd) {
  withRestarts(signalCondition(cnd), muffleProgression = function() NULL)
}
