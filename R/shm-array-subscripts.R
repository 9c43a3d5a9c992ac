# What the subscripts of an assignment to a shared array mean: as for an ordinary array, except that
# there is nothing outside of it.

# list(dim, positions): one vector of positions for each dimension, NULL for all of it. `given` has a
# list of one, or NULL for an empty subscript.
shm_subscripts <- function(x, given) {
  dim <- dim(x)
  if (length(given) == 1L && !is.null(given[[1L]])) {
    index <- bare_subscript(given[[1L]][[1L]])
    if (is.matrix(index) && !is.null(dim) && ncol(index) == length(dim) && !is.logical(index)) {
      found <- matrix_positions(index, dim, dimnames(x))
      return(list(dim = as.double(length(x)), positions = list(found)))
    }
    return(list(
      dim = as.double(length(x)), positions = list(positions(index, length(x), names(x)))
    ))
  }
  if (length(given) <= 1L) {
    return(list(dim = as.double(length(x)), positions = list(NULL)))
  }
  check_dimensions(x, given)
  names <- dimnames(x)
  found <- lapply(seq_along(dim), function(k) {
    if (!is.null(given[[k]])) positions(given[[k]][[1L]], dim[[k]], names[[k]])
  })
  # Where one of them means no element, or may do so because some are missing, the others would not be looked at.
  none <- ifelse(vapply(found, is.null, NA), dim, lengths(found)) == 0
  if (any(none) || anyNA(found, recursive = TRUE)) {
    Map(function(index, extent) if (!is.null(index)) check_within(index, extent), found, dim)
  }
  list(dim = as.double(dim), positions = found)
}

# list(dim, positions) of the one element that the subscripts of `[[<-` mean.
shm_element <- function(x, given) {
  if (length(given) == 1L) {
    return(list(
      dim = as.double(length(x)), positions = list(position(given[[1L]], length(x), names(x)))
    ))
  }
  check_dimensions(x, given)
  names <- dimnames(x)
  list(
    dim = as.double(dim(x)),
    positions = lapply(seq_along(given), function(k) position(given[[k]], dim(x)[[k]], names[[k]]))
  )
}

check_dimensions <- function(x, given) {
  if (length(given) != length(dim(x))) {
    stop(sprintf(
      "%d subscripts for a shared array of %d dimensions", length(given), max(1L, length(dim(x)))
    ), call. = FALSE)
  }
}

bare_subscript <- function(index) {
  if (is_integer64(index)) {
    stop("a subscript of class \"integer64\" holds no doubles: give `as.double()` of it", call. = FALSE)
  }
  unclass(index)
}

# As R finds it: a logical subscript is a number, and a negative one leaves one of two elements.
position <- function(index, extent, names) {
  index <- bare_subscript(index)
  if (is.character(index) && length(index) == 1L) {
    return(named_positions(index, names))
  }
  if (is.atomic(index) && length(index) == 1L && is.na(index)) {
    stop("a subscript of a shared array is missing", call. = FALSE)
  }
  if (is.numeric(index) && length(index) == 1L) {
    check_within(index, extent)
  }
  seq_len(extent)[[index]]
}

# The positions that a subscript of a dimension of `extent` means, NA where it is missing. R's own
# subscripting finds them; what would make a vector longer is refused.
positions <- function(index, extent, names) {
  index <- bare_subscript(index)
  if (is.character(index)) {
    return(named_positions(index, names))
  }
  if (is.numeric(index) && !anyNA(index) && all(index >= 1)) {
    return(index)
  }
  if (is.logical(index) && length(index) > extent) {
    stop(sprintf(
      "%.0f logical subscripts for a dimension of %.0f: a shared array does not grow",
      as.double(length(index)), as.double(extent)
    ), call. = FALSE)
  }
  if (is.numeric(index)) {
    check_within(index, extent)
  }
  seq_len(extent)[index]
}

# As R has it, a missing or empty string is no name, also where there is one that looks like it.
named_positions <- function(index, names) {
  found <- match(index, names)
  found[is.na(index) | !nzchar(index)] <- NA
  if (anyNA(found)) {
    stop(sprintf("there is no name %s in the shared array", quoted(index[is.na(found)][[1L]])),
      call. = FALSE
    )
  }
  found
}

check_within <- function(index, extent) {
  outside <- index >= extent + 1 | index == -Inf
  if (any(outside, na.rm = TRUE)) {
    stop(sprintf(
      "subscript %s is outside of a dimension of %.0f",
      format_count(trunc(as.double(index[[which(outside)[[1L]]]])), ""), as.double(extent)
    ), call. = FALSE)
  }
}

# The positions in the whole array that the rows of a matrix of subscripts mean. In each row the first
# subscript that is missing or zero decides: the row is missing, or means no element.
matrix_positions <- function(index, dim, names) {
  if (is.character(index)) {
    index <- matrix_of_names(index, names)
  }
  index <- trunc(index)
  if (!anyNA(index) && all(index >= 1)) {
    for (k in seq_along(dim)) check_within(index[, k], dim[[k]])
    return(as.double(1 + (index - 1) %*% c(1, cumprod(as.double(dim))[-length(dim)])))
  }
  found <- rep(1, nrow(index))
  open <- rep(TRUE, nrow(index))
  stride <- 1
  for (k in seq_along(dim)) {
    at <- as.double(index[, k])
    if (any(at[open] < 0, na.rm = TRUE)) {
      stop("negative values are not allowed in a matrix of subscripts", call. = FALSE)
    }
    check_within(at[open], dim[[k]])
    found <- ifelse(open, ifelse(at %in% 0, 0, found + (at - 1) * stride), found)
    open <- open & !is.na(at) & at > 0
    stride <- stride * dim[[k]]
  }
  found[!found %in% 0]
}

matrix_of_names <- function(index, names) {
  found <- lapply(seq_len(ncol(index)), function(k) match(index[, k], names[[k]]))
  found <- matrix(as.integer(unlist(found)), nrow(index))
  found[is.na(index) | !nzchar(index)] <- NA
  lost <- is.na(found) & !is.na(index)
  if (any(lost)) {
    stop(sprintf("there is no name %s in the shared array", quoted(index[lost][[1L]])), call. = FALSE)
  }
  found
}

# A missing subscript means no element. That is unambiguous where there is one value for all.
without_missing <- function(positions, value) {
  if (!anyNA(positions, recursive = TRUE) || length(value) == 0L) {
    return(positions)
  }
  if (length(value) > 1L) {
    stop("NAs are not allowed in subscripted assignments", call. = FALSE)
  }
  lapply(positions, function(at) at[!is.na(at)])
}
