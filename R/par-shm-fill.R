# Arrays that workers fill in place: nothing is sent back but the word that a part is done.

shm_fill <- function(dim, f, type = shm_types, ..., .on = getOption("regatta.on"),
                     .control = getOption("regatta.control", par_control())) {
  f <- check_function(f, "f")
  type <- check_choice(type, "type", shm_types)
  args <- list(...)
  check_dots(args, f, "f")
  x <- new_shm_array(check_dim(dim), type, NULL, reserved = FALSE)
  fill_parts(x, part_function(f, NULL, ...), "shm_fill", sys.call(), .on, .control)
}

shm_map <- function(x, f, type = typeof(x), ..., .on = getOption("regatta.on"),
                    .control = getOption("regatta.control", par_control())) {
  f <- check_function(f, "f")
  check_mapped(x, "x")
  args <- list(...)
  check_dots(args, f, "f")
  out <- array_like(x, check_type(type, !missing(type), "x"))
  fill_parts(out, part_function(f, x, ...), "shm_map", sys.call(), .on, .control)
}

shm_map2 <- function(x, y, f, type = shm_type_of(x, y), ..., .on = getOption("regatta.on"),
                     .control = getOption("regatta.control", par_control())) {
  f <- check_function(f, "f")
  check_mapped(x, "x")
  check_mapped(y, "y")
  if (length(y) != 1 && length(x) != length(y)) {
    abort_argument("y", y, sprintf("of length 1 or of the length of `x`, %.0f", length(x)))
  }
  if (!is.null(dim(x)) && !is.null(dim(y)) && !identical(dim(x), dim(y))) {
    must <- sprintf("of the extents of `x`, %s", format_extents(dim(x)))
    abort_argument("y", y, must)
  }
  args <- list(...)
  check_dots(args, f, "f")
  # Where one of them is of no type of arrays there is no wider one.
  other <- if (typeof(x) %in% shm_types) "y" else "x"
  out <- array_like(x, check_type(type, !missing(type), other))
  fill_parts(out, part_function2(f, x, y, ...), "shm_map2", sys.call(), .on, .control)
}

check_mapped <- function(x, argument, call = rlang::caller_env()) {
  check_given(x, argument, "a vector or array", call)
  if (!is.atomic(x) || is.null(x)) {
    advice <- if (is.data.frame(x)) "Map over its columns, or over `as.matrix()` of it."
    abort_argument(argument, x, "a vector or array", call, advice)
  }
  check_length(x, argument, call)
  check_bits(x, argument, "a vector of numbers", call)
}

# With extents and names of `x`, to be written.
array_like <- function(x, type) {
  new_shm_array(as.double(if (is.null(dim(x))) length(x) else dim(x)), type, dimnames(x), FALSE)
}

# The wider of two types; the one that is none of an array's, if there is one.
shm_type_of <- function(x, y) {
  order <- c("raw", "logical", "integer", "double", "complex")
  types <- c(typeof(x), typeof(y))
  types[[which.max(match(types, order, length(order) + 1L))]]
}

# A function of a range of positions; of the elements of `x` there if that is given.
part_function <- function(`*f*`, `*x*`, ...) {
  f <- `*f*`
  x <- `*x*`
  force_around(`*f*`, list(...)) # which are forced as well
  shm_plain <- shm_plain
  from_base(
    if (is.null(x)) function(range) f(range, ...) else function(range) f(shm_plain(x)[range], ...)
  )
}

part_function2 <- function(f, x, y, ...) {
  force_around(f, list(...))
  force(x)
  list(...)
  shm_plain <- shm_plain
  if (length(y) == 1 && length(x) != 1) {
    y <- shm_plain(y)[1L] # with its class, as its elements are given where there are more
    from_base(function(range) f(shm_plain(x)[range], y, ...))
  } else {
    force(y)
    from_base(function(range) f(shm_plain(x)[range], shm_plain(y)[range], ...))
  }
}

# Calls f(range) for ranges of positions that cover `x` and writes what it returns there.
fill_parts <- function(x, f, verb, call, on, control) {
  n <- length(x)
  size <- part_size(n)
  starts <- fill_starts(n, size)
  if (inherits(control, "regatta_control")) control["priority"] <- list(NULL)
  control <- check_control(control, length(starts), call = call)
  results <- map_list(
    seq_along(starts), fill_part(x, f, starts, verb), list(), verb, call, on, control,
    names = range_names(starts, c(starts[-1L] - 1, n)), near = paste0(verb, "()"), keyed = NULL,
    failed = "zeros are in place of their values. Their conditions are the attribute \"errors\" of the result"
  )
  # What no part has written, because it failed, is reserved now; the rest is there.
  .Call(ffi_shm_array_reserve, x)
  failed <- vapply(results, inherits, NA, "regatta_error")
  if (any(failed)) {
    attr(x, "errors") <- results[failed]
  }
  x
}

# A function that returns as many values as it is given could not be told from one that returns a single
# value if all parts were of one element: the first has two.
fill_starts <- function(n, size) {
  if (n == 0) {
    return(numeric())
  }
  starts <- seq(1, n, by = size)
  if (size == 1 && n > 1) starts[-2L] else starts
}

# A function of the number of a part.
fill_part <- function(x, f, starts, verb) {
  force(x)
  force(f)
  ends <- c(starts[-1L] - 1, length(x))
  garbage <- new_garbage()
  function(k) {
    start <- starts[[k]]
    range <- seq_part(start, ends[[k]])
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

range_names <- function(first, last) {
  names <- sprintf("%.0f to %.0f", first, last)
  is_one <- first == last
  names[is_one] <- sprintf("%.0f", first[is_one])
  names
}

fill_values <- function(values, range, x, verb) {
  if (length(values) != length(range)) {
    stop(sprintf(
      paste0(
        "%s() needs %s for the positions %.0f to %.0f, but the function returned %d: it is called with ",
        "%s at a time"
      ),
      verb, count_of(length(range), "value", "values"), range[[1L]], range[[length(range)]],
      length(values), if (verb == "shm_fill") "many positions" else "many elements"
    ), call. = FALSE)
  }
  shm_values(values, x, "f()")
}
