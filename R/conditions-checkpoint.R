# Words of checkpoints. A failure is list(operation, errno, holder), as C code returns it (log.h).

error_checkpoint <- function(message, folder, reason, body = character(), call = NULL) {
  new_error("regatta_error_checkpoint", message, folder = folder, reason = reason, body = body, call = call)
}

error_checkpoint_verb <- function(verb, call = NULL) {
  message <- sprintf(
    "%s cannot go on from a checkpoint: what is kept are the values of elements, by what each element holds.",
    if (is.null(verb)) "this call" else paste0("`", verb, "()`")
  )
  advice <- paste(
    "`par_lapply()`, `par_sapply()`, `par_vapply()`, `par_mapply()` and `par_stream()` can. Give this call a",
    "control without `checkpoint`."
  )
  error_checkpoint(message, NULL, "verb", advice, call)
}

advice_around <- paste(
  "The values of its elements are kept whole: give this call a control without `checkpoint`, or a folder for each",
  "element."
)

# `holder`: who has the lock, in words; `around`: it is a call that has this one in an element.
error_checkpoint_lock <- function(folder, failure, holder, around, call = NULL) {
  who <- if (around) {
    "the call that this one is inside of"
  } else if (failure$holder == Sys.getpid()) {
    "another call of this session"
  } else if (failure$holder > 0L) {
    sprintf("process %d", failure$holder)
  } else {
    holder
  }
  error_checkpoint(
    sprintf("the checkpoint in %s is in use by %s: only one call at a time writes to it.", quoted(folder), who),
    folder, "locked", if (around) advice_around else "Wait for that call to end, or give this one another folder.", call
  )
}

error_checkpoint_open <- function(folder, failure, call = NULL) {
  advice <- switch(failure$operation,
    owner = "Give a folder of your own: reading the values of another user could run code of that user.",
    mode = "Take the right to write away from others (`chmod -R o-w`): they could have code run here.",
    foreign = "Choose another folder, or remove that file.",
    lock = paste(
      "The file system has no locks: choose a folder on another one (NFS needs its lock service), since two",
      "calls that write to one log would damage it."
    ),
    "Choose a folder that this process may write to."
  )
  error_checkpoint(
    sprintf("the checkpoint in %s cannot be used: %s.", quoted(folder), checkpoint_reason(failure)),
    folder, failure$operation, advice, call
  )
}

checkpoint_reason <- function(failure) {
  switch(failure$operation,
    owner = "it belongs to another user",
    foreign = "its file regatta.log is no log of this package, or all of it is damaged",
    mode = "other users may write to it",
    removed = "its files have been removed",
    if (failure$errno > 0L) .Call(ffi_system_message, failure$errno) else failure$operation
  )
}

error_checkpoint_changed <- function(folder, changes, count, call = NULL) {
  several <- "^(the (variables|packages|methods|settings|environments)|its further arguments)\\b"
  many <- length(changes) > 1L || grepl(several, changes)
  message <- sprintf(
    "the checkpoint in %s has values of another call: %s %s since.", quoted(folder),
    paste(changes, collapse = " and "), if (many) "have changed" else "has changed"
  )
  advice <- checkpoint_anew(folder, count)
  if (any(grepl("as a word in", changes, fixed = TRUE))) {
    advice <- paste(
      advice, "A variable whose name is a word by accident is to have its old value, or another name from the start."
    )
  }
  error_checkpoint(message, folder, "changed", advice, call)
}

error_checkpoint_search <- function(passes) {
  message <- sprintf(paste(
    "what this call depends on cannot be told: %d times what its function, arguments or an element use has led to",
    "other variables, in environments that were not known before."
  ), passes)
  advice <- paste(
    "Nothing was run. Active bindings that return other functions each time do so. Give what they return as a further",
    "argument, or call without `checkpoint`."
  )
  error_checkpoint(message, NULL, "search", advice)
}

error_checkpoint_unreadable <- function(folder, call = NULL) {
  message <- sprintf("the checkpoint in %s was written by something else: none of its records can be read.",
    quoted(folder))
  error_checkpoint(message, folder, "unreadable", checkpoint_anew(folder, NULL), call)
}

checkpoint_anew <- function(folder, count) {
  lost <- if (is.null(count) || count == 0) "" else sprintf(", which loses %.0f of them", count)
  sprintf(paste(
    "Nothing was run. Call again as it was to go on with these values; to have new ones give another folder,",
    "or remove this one%s: `unlink(%s, recursive = TRUE)`."
  ), lost, quoted(folder))
}

# `index`: of the element that was to be written, NULL if all may be lost with the machine.
warning_checkpoint <- function(folder, index, failure) {
  what <- if (is.null(index)) "cannot be made safe" else sprintf("could not take the value of element %.0f", index)
  message <- sprintf(
    "the checkpoint in %s %s: %s. The call goes on; values that are not in it are computed again by the next one.",
    quoted(folder), what, checkpoint_reason(failure)
  )
  new_warning(
    "regatta_warning_checkpoint", message, folder = folder, index = index, errno = failure$errno,
    reason = checkpoint_reason(failure)
  )
}

# `found` of `n` elements, those after `before` others, have values; `damaged` bytes are of no record.
message_checkpoint <- function(folder, found, n, before, damaged) {
  which <- if (before > 0) sprintf(" from %.0f on", before + 1) else ""
  text <- sprintf(
    "Checkpoint %s: %.0f of %.0f elements%s are done and do not run again.", quoted(folder), found, n, which
  )
  if (damaged > 0) text <- paste(text, sprintf("%s of it are damaged and were left out.", format_bytes(damaged)))
  new_message("regatta_message_checkpoint", text, folder = folder, found = found, n = n, damaged = damaged)
}

# `index`: of elements whose values were found and cannot be read.
message_checkpoint_lost <- function(folder, index) {
  text <- sprintf(
    "Checkpoint %s: the values of %.0f of these are damaged, those of %s. They run again.", quoted(folder),
    length(index), paste(format_count(utils::head(index, 10L), ""), collapse = ", ")
  )
  new_message("regatta_message_checkpoint", text, folder = folder, index = index)
}
