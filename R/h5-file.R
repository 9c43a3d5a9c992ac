# Files in the HDF5 format: calls of the C++ side, and what a file holds.

# Calls an entry of the C++ side by its name, for a file. What it says about the file comes as a value.
h5_ask <- function(entry, ..., call = rlang::caller_env()) {
  h5_try(entry, list(...), call)
  h5_invoke(entry, ...)
}

# Here as an error of this package.
h5_call <- function(entry, ..., call = rlang::caller_env()) {
  value <- h5_ask(entry, ..., call = call)
  if (inherits(value, "h5_failure")) {
    signal_error(error_h5(value, rlang::error_call(call)))
  }
  value
}

# What the package was built with for HDF5; FALSE without libhdf5.
h5_about <- function() {
  if (is.null(the$h5_about)) {
    about <- h5_invoke("ffi_h5_about")
    the$h5_about <- if (is.null(about)) FALSE else about
  }
  the$h5_about
}

h5_available <- function() {
  about <- h5_about()
  if (isFALSE(about)) FALSE else do.call(structure, c(list(TRUE), about))
}

# To be called before anything else of a function for HDF5.
h5_needed <- function(call = rlang::caller_env()) {
  if (isFALSE(h5_about())) {
    signal_error(error_h5_missing(rlang::error_call(call)))
  }
}

# The file as everyone finds it who is sent the object.
h5_path <- function(path, call = rlang::caller_env()) {
  path <- check_string(path, "path", call = call)
  wanted <- if (!nzchar(path)) {
    "the name of a file"
  } else if (!validEnc(path)) {
    "a name whose bytes are text in this session's encoding"
  } else if (nchar(path, "bytes") > 4000L) {
    "a name of at most 4,000 bytes"
  }
  if (!is.null(wanted)) abort_argument("path", path, wanted, call = call)
  normalizePath(path, mustWork = FALSE)
}

h5_name <- function(name, argument = "name", call = rlang::caller_env()) {
  name <- check_string(name, argument, call = call)
  if (!nzchar(name)) {
    abort_argument(argument, name, "the name of something in the file", call = call)
  }
  enc2utf8(name)
}

# Threads that a call uses: those asked for, else the worker's share, else the cores that this process
# may use. A process that somebody else forked is one of several that have the same cores.
h5_threads <- function(threads, call = rlang::caller_env()) {
  if (!is.null(threads)) {
    return(check_count(threads, "threads", call = call))
  }
  share <- suppressWarnings(as.integer(Sys.getenv(c("REGATTA_THREADS", "REGATTA_SHARE"))))
  share <- share[!is.na(share) & share > 0L]
  if (length(share) > 0L) {
    return(share[[1L]])
  }
  if (!identical(the$pid, Sys.getpid())) 1L else as.integer(unclass(workers_available()))
}

# The elements of a short dataset, or of a field of it, or of an attribute of what `name` is; NULL if there is none.
h5_values <- function(path, name, attribute = "", field = "", call = rlang::caller_env()) {
  h5_call("ffi_h5_values", path, name, attribute, field, call = call)
}

# What is below a group, or a dataset by itself; NULL if there is no such thing.
h5_listed <- function(path, name) {
  known <- h5_ask("ffi_h5_list", path, name)
  if (!inherits(known, "h5_failure")) known
}

# Of what h5_listed() has found by this name: the fields of a dataset of compound elements; none of anything else.
h5_record_fields <- function(known, name) {
  if (identical(known$name, name)) known$fields[[1L]]
}

h5_ls <- function(path, group = "/") {
  h5_needed()
  path <- h5_path(path)
  found <- h5_call("ffi_h5_list", path, h5_name(group, "group"))
  shape <- function(numbers) {
    vapply(numbers, function(n) format_extents(rev(n)), "")
  }
  structure(
    data.frame(
      name = found$name, kind = found$kind, type = found$type, dim = shape(found$extents),
      chunk = shape(found$chunk), filters = found$filters, target = found$target
    ),
    class = c("h5_ls", "data.frame"), path = path
  )
}

format.h5_ls <- function(x, ...) {
  described <- cbind(
    x$name, ifelse(x$kind == "dataset", x$type, paste0("<", x$kind, ">")),
    ifelse(x$kind == "dataset" & !nzchar(x$dim), "single value", x$dim),
    ifelse(nzchar(x$chunk), paste0("chunks ", x$chunk), ""), x$filters,
    ifelse(nzchar(x$target), paste0("-> ", x$target), "")
  )
  # NA would not line up.
  columns <- apply(described, 2L, function(words) format(enc2utf8(words)), simplify = FALSE)
  sub(" +$", "", do.call(paste, c(columns, sep = "  ")))
}

print.h5_ls <- function(x, ...) {
  if (!all(c("name", "kind", "type", "dim", "chunk", "filters", "target") %in% names(x))) {
    return(NextMethod())
  }
  writeLines(c(attr(x, "path"), if (nrow(x) == 0L) "nothing in it" else format(x)))
  invisible(x)
}
