# Decoded chunks of a matrix in a file, kept in shared memory. The matrix holds an environment that names its
# cache; the cache itself stands in this process's table, so that what goes to a process that has not inherited
# the table goes without.

h5_cache <- function(m, budget = "1GB") {
  h5_needed()
  check_h5_object(m)
  budget <- check_bytes(budget, "budget")
  if (budget >= 2^62) {
    abort_argument("budget", budget, "a finite number of bytes or a size such as \"2GB\"")
  }
  fields <- h5_fields(m)
  others <- if (inherits(m, "h5_sparse")) h5_sparse_others(m) else character()
  pointer <- h5_call("ffi_h5_cache_new", h5_source(m), others, floor(budget), shm_limit())
  h5_cache_settle(h5_invoke("ffi_h5_cache_changed", pointer))
  name <- structure(new.env(hash = FALSE, parent = emptyenv()), class = key_session_class)
  name$id <- h5_invoke("ffi_h5_cache_info", pointer)$id
  assign(name$id, pointer, envir = the$h5_caches)
  reg.finalizer(name, h5_cache_forget)
  fields$cache <- name
  h5_object(fields, class(m))
}

# A file that is changed within one tick of its clock looks as before. So nothing is kept before the tick is
# over in which it was changed last: a few milliseconds, or with clocks that count seconds up to two.
h5_cache_settle <- function(changed) {
  for (last in changed) {
    tick <- if (last == trunc(last)) 2 else 0.05
    for (k in 1:100) {
      age <- as.double(Sys.time()) - last
      if (age < 0 || age > tick) break
      Sys.sleep(tick - age + 0.001)
    }
  }
}

h5_cache_forget <- function(name) {
  pointer <- the$h5_caches[[name$id]]
  if (!is.null(pointer)) {
    rm(list = name$id, envir = the$h5_caches)
    h5_invoke("ffi_h5_cache_drop", pointer)
  }
}

# The cache of a matrix in this process, or NULL.
h5_cache_of <- function(m) {
  name <- h5_fields(m)$cache
  if (is.environment(name)) the$h5_caches[[name$id]]
}

# Calls an entry whose last argument is the cache of `m`. Of a file that has changed nothing more is kept.
h5_call_cached <- function(m, entry, ..., call = rlang::caller_env()) {
  cache <- h5_cache_of(m)
  value <- h5_call(entry, ..., cache, call = call)
  if (!is.null(cache) && h5_invoke("ffi_h5_cache_info", cache)$changed) {
    h5_cache_forget(h5_fields(m)$cache)
    warning(warning_h5_cache(h5_place(m)))
  }
  value
}

h5_cache_drop <- function(m) {
  h5_needed()
  check_h5_object(m)
  fields <- h5_fields(m)
  if (is.environment(fields$cache)) h5_cache_forget(fields$cache)
  fields$cache <- NULL
  invisible(h5_object(fields, class(m)))
}

h5_cache_info <- function(m) {
  h5_needed()
  check_h5_object(m)
  cache <- h5_cache_of(m)
  if (is.null(cache)) {
    return(c(budget = 0, used = 0, chunks = NA_real_, kept = 0))
  }
  unlist(h5_invoke("ffi_h5_cache_info", cache)[c("budget", "used", "chunks", "kept")])
}

# A line of print().
h5_cache_line <- function(m) {
  if (is.null(h5_cache_of(m))) {
    return(NULL)
  }
  info <- h5_cache_info(m)
  sprintf("  cache     %.0f of %.0f chunks, %s of %s", info[["kept"]], info[["chunks"]], format_bytes(info[["used"]]),
    format_bytes(info[["budget"]]))
}
