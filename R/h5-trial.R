# libhdf5 believes what a file says of itself: of a damaged one it may crash, or look for something for ever. So what an
# entry asks of a file for the first time, a program without R is asked before (src/h5-try/main.cpp), whose crash is an
# error here.

# Returns if the program has come to an end with what `entry` would ask, by a value or an error.
h5_try <- function(entry, args, call) {
  limit <- h5_trial_limit(call)
  state <- if (limit > 0) h5_file_state(args)
  if (is.null(state)) return()
  for (request in h5_requests(entry, args, state)) {
    if (h5_is_tried(state, request)) next
    answer <- .Call(ffi_trial, h5_trial_program(), h5_request_bytes(request), limit)
    if (is.list(answer)) {
      user <- rlang::error_call(call)
      if (!is.null(answer$reason)) signal_error(error_h5_untried(state$path, answer$reason, user))
      signal_error(error_h5_trial(state$path, answer, limit, user))
    }
    # Otherwise it has to do with other files, too.
    if (answer == 1L) h5_note_trial(state, request)
  }
}

# Seconds that one may take: usually milliseconds, and some where there are millions of chunks.
h5_trial_limit <- function(call) {
  limit <- getOption("regatta.h5_trial", 600)
  if (isFALSE(limit)) {
    return(0)
  }
  if (!is_number(limit) || limit <= 0) {
    abort_argument("options(regatta.h5_trial = )", limit, "`FALSE` or a positive number of seconds", call = call)
  }
  limit
}

# Beside the library for HDF5.
h5_trial_program <- function() {
  h5_entry("ffi_h5_about")
  file.path(the$h5_folder, "regatta-h5-try")
}

# The first argument of an entry is a path, or a source that begins with one. NULL if there is no file to be read, which
# is for others to say.
h5_file_state <- function(args) {
  path <- args[[1L]][[1L]]
  state <- file.info(path, extra_cols = FALSE)
  if (!is.na(state$size) && !state$isdir) {
    # Programs that copy may give a file any time of its last change, but not of the last change of its state.
    list(path = path, size = state$size, times = as.double(c(state$mtime, state$ctime)))
  }
}

# What the program is to do, and with what: `all` for all rows or columns.
h5_requests <- function(entry, args, state) {
  switch(entry,
    ffi_h5_list = list(c("list", args[1:2])),
    ffi_h5_values = list(c("values", args[1:4])),
    ffi_h5_describe = list(c("describe", args[1:2])),
    ffi_h5_check = list(c("describe", args[[1L]][1:2])),
    ffi_h5_stored = list(c("stored", args[1:2])),
    ffi_h5_create = list(list("list", args[[1L]], "/")),
    ffi_h5_read = list(h5_request_part(state, args[[1L]], args[[2L]], args[[3L]])),
    ffi_h5_stats = list(h5_request_part(state, args[[1L]])),
    ffi_h5_cache_new = , ffi_h5_sparse_read = , ffi_h5_sparse_stats = {
      source <- args[[1L]]
      lapply(c(source[[2L]], args[[2L]]), function(name) {
        list("locate", source[[1L]], name, if (name == source[[2L]]) source[[3L]] else numeric(), "all", "all")
      })
    }
  )
}

# Where the chunks are. To be asked for each part would take longer than to know of all, unless these are many.
h5_request_part <- function(state, source, slow = NULL, fast = NULL) {
  shape <- source[[4L]]
  all <- list("locate", source[[1L]], source[[2L]], source[[3L]], "all", "all")
  few <- prod(ceiling(shape[[1L]] / shape[[2L]])) <= 2e4
  if (few || is.null(slow) && is.null(fast) || h5_is_tried(state, all)) {
    return(all)
  }
  c(all[1:4], list(if (is.null(slow)) "all" else slow, if (is.null(fast)) "all" else fast))
}

# By which it is known again. That of chosen rows and columns is not: they would be many.
h5_request_key <- function(request) {
  if (!any(vapply(request[-(1:4)], is.numeric, NA))) paste(unlist(request[-2L]), collapse = "\n")
}

h5_is_tried <- function(state, request) {
  known <- the$h5_tried[[state$path]]
  identical(known$state, state) && isTRUE(h5_request_key(request) %in% known$requests)
}

h5_note_trial <- function(state, request) {
  if (length(the$h5_tried) >= 10000L) rm(list = ls(the$h5_tried, all.names = TRUE), envir = the$h5_tried)
  known <- the$h5_tried[[state$path]]
  if (!identical(known$state, state)) known <- list(state = state)
  known$requests <- union(known$requests, h5_request_key(request))
  assign(state$path, known, envir = the$h5_tried)
}

# How many fields, then each after its length.
h5_request_bytes <- function(request) {
  fields <- lapply(request, function(field) {
    bytes <- if (is.character(field)) charToRaw(enc2utf8(field)) else writeBin(as.double(field), raw())
    c(writeBin(length(bytes), raw()), bytes)
  })
  c(writeBin(length(fields), raw()), unlist(fields))
}
