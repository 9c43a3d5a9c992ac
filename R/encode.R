# `x` as bytes, whatever handlers and options(warn = ) there are. R warns whenever it writes an environment of a
# package, since the reader might not have it; what it writes is right, and nobody could do anything about it.
to_bytes <- function(x, ...) unwarned(serialize(x, NULL, xdr = FALSE, ...))

unwarned <- function(code) withCallingHandlers(code, warning = muffle_warning)

muffle_warning <- function(w) tryInvokeRestart("muffleWarning")

# Called from C when there is no room for a result of a run, or for a shared object.
abort_memory <- function(requested, available, in_run) {
  signal_error(error_memory(requested, available, in_run))
}

# Called from C when a file of shared memory would be larger than any file of this process may be.
abort_file_size <- function(requested, limit) {
  message <- sprintf(paste(
    "cannot reserve %s of shared memory: this process may make no file, nor shared memory, of more",
    "than %s (RLIMIT_FSIZE). `ulimit -f unlimited` in the shell that starts R lifts that."
  ), format_bytes(requested), format_bytes(limit))
  signal_error(new_error(
    "regatta_error_memory", message, requested = as.double(requested), available = as.double(limit)
  ))
}

# Called from C when the lock of a run's queue cannot be taken, since it is none any more; or, not for the
# whole run, when there is no telling where a result can be written.
abort_overwritten <- function(whole_run) {
  what <- if (whole_run) {
    "what the session and its workers share of this run was overwritten; what has not been returned is lost"
  } else {
    "the list of what is free in shared memory was overwritten: the result was written nowhere"
  }
  signal_error(new_error("regatta_error_damage", paste0(
    what, ". Code that an element has called writes where it should not. A checker of memory finds such code."
  )))
}

# Called from C for an element whose value, or error, was overwritten before the session has read it: what
# a worker would have sent of an error.
overwritten_record <- function() {
  cnd <- new_error("regatta_error_damage", paste(
    "what it has sent was overwritten in shared memory before the session has read it: code that this",
    "worker has called, in this element or another, writes where it should not"
  ))
  record <- capture_error(cnd, list(), list(), detail = FALSE, dump = "no")
  record$class <- "regatta_error_damage"
  record
}

# Called from C when this process may open no more files: each call that shares an object, and each array, has one.
abort_files <- function(requested) {
  limit <- .Call(ffi_regatta_info_limits, "/")[["files_soft"]]
  ours <- length(.Call(ffi_shm_info)$owner)
  message <- sprintf(paste(
    "cannot have %s of shared memory: this process has as many files open as it may, %.0f (RLIMIT_NOFILE), and %d of",
    "them are for shared objects. Each call of `shm_share()` and each array takes one: share what belongs together by",
    "one call, as a list, or raise `ulimit -n` in the shell that starts R."
  ), format_bytes(requested), limit, ours)
  signal_error(new_error(
    "regatta_error_memory", message, requested = as.double(requested), available = NA_real_
  ))
}

# Called from C when shared memory cannot be mapped: each shared vector, and each array, is a mapping of its own. There
# may be as many as there may be, or the system has another reason, such as the limit of the address space.
# Mappings that the process has in `all` and for shared memory, up to how many it makes `most` and may have, `limit`.
abort_maps <- function(requested, ours, all, most, limit) {
  many <- isTRUE(all >= most)
  message <- sprintf(
    paste("cannot map %s of shared memory: this process has %s mappings, %s of them for shared memory,", if (many) {
      paste(
        "and the system allows it %s (vm.max_map_count), a quarter of which is left to all else. Each shared vector",
        "takes one: share larger ones only, by a larger `min`, in maps `share_min`, put many small ones into one, or",
        "drop objects that `shm_info()` lists. `sysctl vm.max_map_count` raises the limit."
      )
    } else {
      paste(
        "where the system allows it %s (vm.max_map_count), but it has no memory or addresses left for another one:",
        "`ulimit -v` in the shell that starts R shows the limit of its addresses."
      )
    }),
    format_bytes(requested), format_count(all), format_count(ours), format_count(limit)
  )
  signal_error(new_error(
    "regatta_error_memory", message, requested = as.double(requested), available = NA_real_
  ))
}

# Called from C when the descriptor of shared memory is not open any more, or on something else.
abort_descriptor <- function(requested) {
  message <- sprintf(paste(
    "cannot write %s to shared memory: its file descriptor was closed in process %d, and may be",
    "another file's by now. Code that ran there, in this element or an earlier one, has closed",
    "descriptors that are not its own: find it and have it close what it has opened."
  ), format_bytes(requested), Sys.getpid())
  signal_error(new_error("regatta_error_descriptor", message, requested = as.double(requested)))
}

# The order of strings, the same in all locales: by the bytes of UTF-8.
in_order <- function(strings) order(enc2utf8(strings), method = "radix")

sorted <- function(strings) strings[in_order(strings)]
