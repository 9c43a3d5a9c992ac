# Arrays that workers fill in place: nothing is sent back but the word that a part is done.

shm_fill <- function(dim, f, type = shm_types, ..., .on = NULL, .control = par_control()) {
  f <- match.fun(f)
  type <- check_choice(type, "type", shm_types)
  x <- new_shm_array(check_dim(dim), type, NULL, reserved = FALSE)
  fill_parts(x, part_function(f, NULL, ...), "shm_fill", sys.call(), .on, .control)
}

shm_map <- function(x, f, type = typeof(x), ..., .on = NULL, .control = par_control()) {
  f <- match.fun(f)
  if (!is.atomic(x)) {
    abort_argument("x", x, "a vector or array")
  }
  type <- check_choice(type, "type", shm_types)
  dim <- as.double(if (is.null(dim(x))) length(x) else dim(x))
  out <- new_shm_array(dim, type, dimnames(x), reserved = FALSE)
  fill_parts(out, part_function(f, x, ...), "shm_map", sys.call(), .on, .control)
}

# A function of a range of positions; of the elements of `x` there if that is given.
part_function <- function(f, x, ...) {
  force(f)
  list(...) # forced as well
  if (is.null(x)) function(range) f(range, ...) else function(range) f(shm_plain(x)[range], ...)
}

# Calls f(range) for ranges of positions that cover `x` and writes what it returns there.
fill_parts <- function(x, f, verb, call, on, control) {
  n <- length(x)
  size <- part_size(n)
  starts <- if (n > 0) seq(1, n, by = size) else numeric()
  control$priority <- NULL
  control <- check_control(control, length(starts), call = call)
  results <- map_list(
    starts, fill_part(x, f, size, verb), list(), verb, call, on, control,
    names = part_names(starts, size, n), near = paste0(verb, "()")
  )
  # What no part has written, because it failed, is reserved now; the rest is there.
  .Call(ffi_shm_array_reserve, x)
  failed <- vapply(results, inherits, NA, "regatta_error")
  if (any(failed)) {
    attr(x, "errors") <- results[failed]
  }
  x
}

# A function of the first position of a part.
fill_part <- function(x, f, size, verb) {
  force(x)
  force(f)
  n <- length(x)
  garbage <- new_garbage()
  function(start) {
    range <- seq_part(start, min(n, start + size - 1))
    values <- f(range)
    .Call(ffi_shm_array_write, x, start, fill_values(values, range, x, verb))
    values <- NULL
    collect_garbage(garbage)
    NULL
  }
}

# A part is garbage as soon as it is written. A worker inherits the size at which its session would
# collect, which may be far away: it collects by itself, young objects only, when so many bytes
# have come together, and keeps the memory for the next parts: fresh pages cost more than arithmetic.
garbage_max <- 32 * 2^20

# What a worker knows of its memory: `bytes`, what it had when it last collected, and in how many
# parts it looks again, since looking takes longer the more pieces are free.
new_garbage <- function() {
  garbage <- new.env(parent = emptyenv())
  garbage$session <- Sys.getpid()
  garbage$wait <- 0
  garbage
}

collect_garbage <- function(garbage) {
  if (Sys.getpid() == garbage$session) {
    return(NULL)
  }
  garbage$wait <- garbage$wait - 1
  if (garbage$wait > 0) {
    return(NULL)
  }
  now <- .Call(ffi_memory_malloced)
  if (is.null(garbage$bytes)) {
    .Call(ffi_memory_keep_freed)
    garbage$bytes <- now
    garbage$step <- 1
  } else if (now - garbage$bytes > garbage_max) {
    gc(full = FALSE)
    garbage$bytes <- .Call(ffi_memory_malloced)
    garbage$step <- max(1, garbage$step %/% 2)
  } else {
    garbage$step <- min(16, 2 * garbage$step)
  }
  garbage$wait <- garbage$step
}

# So many parts that any number of workers end together, and none so large that it leaves the cache.
# It depends on nothing else: random numbers belong to parts.
part_size <- function(n) {
  max(1, min(ceiling(n / 256), 2^18))
}

seq_part <- function(first, last) {
  if (last <= .Machine$integer.max) as.integer(first):as.integer(last) else first:last
}

part_names <- function(starts, size, n) {
  sprintf("%.0f to %.0f", starts, pmin(n, starts + size - 1))
}

fill_values <- function(values, range, x, verb) {
  if (length(values) != length(range)) {
    stop(sprintf(
      "%s() needs %d values for the positions %.0f to %.0f, but the function returned %d",
      verb, length(range), range[[1L]], range[[length(range)]], length(values)
    ), call. = FALSE)
  }
  if (typeof(values) == typeof(x)) values else shm_values(values, x, "f()")
}
