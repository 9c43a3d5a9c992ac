# Arrays in shared memory that are written in place: whoever has one, in whatever process, sees
# what the others write. They behave like environments, not like vectors: assignment makes no copy.

shm_types <- c("double", "integer", "logical", "complex", "raw")

shm_array <- function(dim, type = shm_types, fill = NULL, dimnames = NULL) {
  if (!missing(dim) && is.atomic(dim) && !is.null(base::dim(dim))) {
    if (!is.null(fill)) {
      advice <- "For an array of other elements give its extents: `shm_array(dim(m), fill = )`."
      abort_argument("fill", fill, "`NULL` where `dim` is a matrix or array to copy", advice = advice)
    }
    type <- check_type(if (missing(type)) typeof(dim) else type, !missing(type), "dim")
    return(shm_array_like(dim, type, check_dimnames(dimnames, base::dim(dim))))
  }
  type <- check_choice(type, "type", shm_types)
  dim <- check_dim(dim, or = ", or a matrix or array to copy")
  x <- new_shm_array(dim, type, check_dimnames(dimnames, dim), reserved = TRUE)
  if (!is.null(fill) && length(fill) != 1L && length(fill) == length(x)) {
    .Call(ffi_shm_array_assign, x, as.double(length(x)), list(NULL), shm_values(fill, x, "fill"))
  } else if (!is.null(fill)) {
    .Call(ffi_shm_array_fill, x, shm_values(fill, x, "fill", length = 1))
  }
  x
}

check_dimnames <- function(dimnames, dim, call = rlang::caller_env()) {
  counts <- lengths(dimnames)
  fit <- is.list(dimnames) && length(counts) %in% c(0L, length(dim)) && all(counts == 0L | counts == dim)
  if (!is.null(dimnames) && !fit) {
    must <- sprintf("`NULL` or a list with, for each extent of %s, `NULL` or as many names", format_extents(dim))
    abort_argument("dimnames", dimnames, must, call)
  }
  dimnames
}

# With extents, names and elements of an ordinary matrix or array.
shm_array_like <- function(values, type, dimnames) {
  if (is.null(dimnames)) dimnames <- base::dimnames(values)
  x <- new_shm_array(as.double(base::dim(values)), type, dimnames, reserved = TRUE)
  .Call(ffi_shm_array_assign, x, as.double(length(x)), list(NULL), shm_values(values, x, "dim"))
}

# One that is not `reserved` is to be written part by part, then reserved, and only then shown.
new_shm_array <- function(dim, type, dimnames, reserved) {
  attributes <- list()
  if (length(dim) > 1L || !is.null(dimnames)) {
    attributes <- list(dim = as.integer(dim), dimnames = dimnames)
  }
  .Call(ffi_shm_array_new, type, prod(dim), attributes, shm_limit(), reserved)
}

check_dim <- function(dim, or = "", call = rlang::caller_env()) {
  must <- paste0("one or more whole numbers, none of them negative", or)
  check_given(dim, "dim", must, call)
  if (inherits(dim, "shm_array") || is.array(dim)) {
    advice <- "The extents of an array `x` are `dim(x)`, or `length(x)` if it has one. `shm_map(x, f)` computes from it."
    abort_argument("dim", dim, must, call, advice)
  }
  if (!is.numeric(dim) || length(dim) == 0L || anyNA(dim) || any(dim < 0 | dim != trunc(dim))) {
    advice <- "To share a vector `v`: `shm_array(length(v), typeof(v), v)`."
    if (is.data.frame(dim)) advice <- "To share a data frame: `shm_share()`, or `as.matrix()` of it."
    abort_argument("dim", dim, must, call, if (is.numeric(dim) || is.data.frame(dim)) advice)
  }
  if (prod(dim) > 2^52) {
    must <- sprintf("the extents of an array that can be: %s elements are too many", format_number(prod(dim)))
    advice <- "To share a vector `v`: `shm_array(length(v), typeof(v), v)`."
    abort_argument("dim", dim, must, call, if (length(dim) > 8L) advice)
  }
  if (length(dim) > 1L && any(dim > .Machine$integer.max)) {
    must <- sprintf("extents of at most %d where there are several", .Machine$integer.max)
    abort_argument("dim", dim, must, call)
  }
  as.double(dim)
}

# `values` in the type of `x`. An array cannot change its type, as a vector would, so what would lose
# something is refused.
shm_values <- function(values, x, argument, length = NULL, call = rlang::caller_env()) {
  if (!is.null(length) && length(values) != length) {
    size <- base::length(x)
    must <- sprintf("of length %.0f", length)
    if (argument == "fill" && size > 1) must <- sprintf("%s, or %.0f as the array has elements", must, size)
    abort_argument(argument, values, must, call)
  }
  type <- typeof(x)
  check_bits(values, argument, sprintf("numbers of type %s", type), call)
  if (typeof(values) == type) {
    return(values)
  }
  if (!fits_type(values, type)) {
    must <- sprintf("storable in a shared array of type %s", type)
    abort_argument(argument, values, must, call, advise_type(values, argument))
  }
  stored <- as.vector(unclass(values), type)
  if (type == "complex") {
    lacking <- is.na(values) & !is.nan(values)
    stored[lacking] <- unclass(values)[lacking] # R's own assignment has another imaginary part
  }
  stored
}

# The one class, with those made of it, whose doubles are no numbers: they are 64 bits of a whole one.
check_bits <- function(x, argument, must, call = rlang::caller_env()) {
  if (is_integer64(x)) {
    must <- sprintf("%s, not of class \"integer64\": what that keeps in doubles are no doubles", must)
    abort_argument(argument, x, must, call, "`as.double()` or `as.integer()` makes numbers of it.")
  }
}

is_integer64 <- function(x) is.double(x) && is.object(x) && inherits(x, "integer64")

# Whether values of another type can be stored. A value that is missing is so in all types but raw.
fits_type <- function(values, type) {
  order <- c("logical", "integer", "double", "complex")
  from <- match(typeof(values), order)
  to <- match(type, order)
  if (is.null(values) || is.na(from) || is.na(to)) {
    return(is.null(values))
  }
  if (from < to) {
    return(TRUE)
  }
  bare <- unclass(values)
  fits <- is.na(bare) & !is.nan(bare)
  if (type == "integer" && is.double(bare)) {
    fits <- fits | (bare == trunc(bare) & abs(bare) <= .Machine$integer.max)
  }
  isTRUE(all(fits))
}

# Of `type` where it is that of `x` unless it is given.
check_type <- function(type, given, x, call = rlang::caller_env()) {
  if (!given && !type %in% shm_types) {
    must <- sprintf("given, one of %s, where `%s` is of another type", quoted(shm_types, "or"), x)
    abort_argument("type", type, must, call)
  }
  check_choice(type, "type", shm_types, call)
}

# The type of an array is set when it is made, and cannot change.
advise_type <- function(values, argument) {
  type <- typeof(values)
  if (type %in% shm_types) {
    sprintf("Give the array a type that can hold them: `type = \"%s\"`.", type)
  } else if (type == "character") {
    "Arrays hold no strings: `shm_share()` shares a character vector."
  }
}

is_shm_array <- function(x) {
  inherits(x, "shm_array") && .Call(ffi_shm_array_is, x)
}

# For what R computes with it: the same memory as an ordinary vector, not to be modified.
shm_plain <- function(x) {
  if (is_shm_array(x)) .Call(ffi_shm_array_plain, x) else drop_shm_class(x)
}

# A result that R has given the attributes of an array is an ordinary vector.
drop_shm_class <- function(x) {
  if (inherits(x, "shm_array")) {
    class(x) <- setdiff(class(x), "shm_array")
  }
  x
}

`[.shm_array` <- function(x, ...) {
  # R returns the object itself for `x[]`.
  if (nargs() < 3L && (...length() == 0L || is_empty_argument(substitute(list(...))[[2L]]))) {
    return(shm_copy(x))
  }
  NextMethod()
}

# A subscript may be empty, which only the call tells.
empty_arguments <- function(call) {
  vapply(as.list(call)[-1L], is_empty_argument, NA)
}

# Functions of R's own packages are written for vectors: replace(), ifelse(), pmin() and others assign to elements
# of their argument and mean a copy of their own. But one such as `diag<-`() is called to change it. Whether such a
# function does not assign on behalf of other code: `env` and `frame` are those of the code that assigns.
assigns_to_copy <- function(env, frame) {
  while (is_code_of_r(env) && frame > 0L) {
    if (!is_replacement_call(sys.call(frame))) {
      return(TRUE)
    }
    frame <- sys.parents()[[frame]]
    env <- if (frame > 0L) sys.frame(frame) else globalenv()
  }
  FALSE
}

is_code_of_r <- function(env) {
  top <- topenv(env)
  isBaseNamespace(top) || (isNamespace(top) && getNamespaceName(top) %in% r_packages)
}

r_packages <- c("stats", "utils", "graphics", "grDevices", "methods", "tools", "splines", "stats4", "grid")

is_replacement_call <- function(call) {
  name <- call[[1L]]
  if (is.call(name)) name <- name[[length(name)]] # base::`diag<-`
  is.symbol(name) && grepl("<-", name, fixed = TRUE)
}

# The ordinary vector that elements are assigned to in place of `x`; NULL if that is the array. `env` and `frame`: see
# assigns_to_copy().
assigned_instead <- function(x, env, frame) {
  if (!is_shm_array(x)) drop_shm_class(x) else if (assigns_to_copy(env, frame)) shm_copy(x)
}

`[<-.shm_array` <- function(x, ..., value) {
  other <- assigned_instead(x, parent.frame(), sys.parent())
  if (!is.null(other)) {
    other[...] <- value
    return(other)
  }
  value <- shm_values(value, x, "value")
  empty <- empty_arguments(substitute(list(...)))
  given <- lapply(seq_along(empty), function(k) if (!empty[[k]]) list(...elt(k)))
  subscripts <- shm_subscripts(x, given)
  positions <- without_missing(subscripts$positions, value)
  .Call(ffi_shm_array_assign, x, subscripts$dim, positions, value)
}

`[[<-.shm_array` <- function(x, ..., value) {
  other <- assigned_instead(x, parent.frame(), sys.parent())
  if (!is.null(other)) {
    other[[...]] <- value
    return(other)
  }
  if (length(value) != 1L) {
    abort_argument("value", value, "a single element")
  }
  value <- shm_values(value, x, "value")
  empty <- empty_arguments(substitute(list(...)))
  if (length(empty) == 0L || any(empty)) {
    stop("`[[<-` of a shared array needs all subscripts: one, or one for each dimension", call. = FALSE)
  }
  subscripts <- shm_element(x, list(...))
  .Call(ffi_shm_array_assign, x, subscripts$dim, subscripts$positions, value)
}

format.shm_array <- function(x, ...) {
  x <- shm_plain(x)
  format(x, ...)
}

# The line that says what `x` is.
describe_shm_array <- function(x) {
  dim <- if (is.null(dim(x))) length(x) else dim(x)
  bytes <- length(x) * c(double = 8, integer = 4, logical = 4, complex = 16, raw = 1)[[typeof(x)]]
  sprintf(
    "<shm_array> %s %s, %s%s", format_extents(dim),
    typeof(x), format_bytes(bytes), if (is_shm_array(x)) "" else ", an ordinary copy"
  )
}

print.shm_array <- function(x, ...) {
  writeLines(describe_shm_array(x))
  shown <- shm_plain(x)
  print(if (length(shown) > 100L) utils::head(as.vector(shown[seq_len(20L)])) else shown, ...)
  invisible(x)
}
