# A matrix in an HDF5 file: where it is and what it is like, never a handle of the file. Each use opens
# the file, so that the object can go to any process that sees the same files.

h5_matrix <- function(path, name, plane = NULL, dimnames = TRUE) {
  h5_needed()
  path <- h5_path(path)
  if (missing(name)) h5_abort_nameless(path)
  name <- h5_name(name)
  facts <- h5_call("ffi_h5_describe", path, name)
  plane <- h5_plane(plane, facts$extents)
  dim <- c(rev(facts$extents), 1, 1)[1:2]
  names <- h5_given_names(dimnames, path, name, dim)
  h5_object(
    list(
      path = path, name = name, dim = h5_dim(dim), dimnames = names, plane = plane,
      type = facts$type,
      chunk = if (length(facts$chunk) > 0L) h5_dim(c(rev(facts$chunk), 1)[1:2]),
      layout = facts$layout, filters = facts$filters, transposed = FALSE,
      shape = facts[c("extents", "chunk", "type")]
    ),
    "h5_matrix"
  )
}

# What the file has instead, which is for h5_sparse() where there is no matrix.
h5_abort_nameless <- function(path, call = rlang::caller_env()) {
  found <- h5_call("ffi_h5_list", path, "/", call = call)
  matrices <- found$name[found$kind == "dataset" & lengths(found$extents) >= 2L]
  more <- length(matrices) - 10
  advice <- if (length(matrices) == 0L) {
    "The file has none of two dimensions: `h5_ls(path)` lists what it has, and `h5_sparse(path)` finds a sparse matrix."
  } else {
    sprintf("The file has %s%s.", paste0("`", utils::head(matrices, 10L), "`", collapse = ", "),
      if (more > 0) sprintf(" and %.0f more, which `h5_ls(path)` lists", more) else "")
  }
  abort_argument("name", , "the name of a dataset", call = call, advice = advice)
}

# An environment, which is never changed: functions of base that ask no class, as `for`, would take the elements of a
# list, or of any vector, for the data. What is the same for dense and sparse matrices is a method for "h5_object".
h5_object <- function(fields, class) {
  x <- new.env(hash = FALSE, parent = emptyenv())
  assign("fields", fields, envir = x)
  lockEnvironment(x, bindings = TRUE)
  structure(x, class = union(class, "h5_object"))
}

h5_fields <- function(x) .subset2(x, "fields")

# The dataset for entries of the C++ side, which fail if it has another shape by now.
h5_source <- function(m) {
  fields <- h5_fields(m)
  if (inherits(m, "h5_sparse")) {
    return(list(fields$path, paste0(fields$name, "/data"), numeric(), fields$shape))
  }
  list(fields$path, fields$name, fields$plane, fields$shape)
}

# R's own matrices have integer extents; a file may have more.
h5_dim <- function(dim) {
  if (all(dim <= .Machine$integer.max)) as.integer(dim) else dim
}

# The dimensions of the file behind the two of the matrix, in the file's order.
h5_plane <- function(plane, extents, call = rlang::caller_env()) {
  further <- rev(extents)[-(1:2)]
  if (is.null(plane) && all(further == 1)) {
    return(rep(1, max(0L, length(extents) - 2L)))
  }
  ok <- is.numeric(plane) && length(plane) == length(further) && !anyNA(plane) &&
    all(plane >= 1 & plane <= further & plane == trunc(plane))
  if (!ok) {
    must <- sprintf(
      "%d whole number%s of at most %s, since the dataset is one of %s", length(further),
      if (length(further) == 1L) "" else "s", paste(format_count(further, ""), collapse = ", "),
      format_extents(rev(extents))
    )
    if (length(further) == 0L) must <- "`NULL` for a dataset of up to two dimensions"
    abort_argument("plane", plane, must, call = call)
  }
  rev(as.double(plane))
}

h5_given_names <- function(dimnames, path = NULL, name = NULL, dim, argument = "dimnames", call = rlang::caller_env()) {
  if (!is.null(path) && is.logical(dimnames) && length(dimnames) == 1L && !is.na(dimnames)) {
    return(if (dimnames) h5_stored_names(path, name, dim))
  }
  if (is.null(dimnames)) {
    return(NULL)
  }
  ok <- is.list(dimnames) && length(dimnames) == 2L && all(vapply(1:2, function(k) {
    is.null(dimnames[[k]]) || length(dimnames[[k]]) == dim[[k]]
  }, NA))
  if (!ok) {
    must <- sprintf("a list of names for %.0f rows and %.0f columns", dim[[1L]], dim[[2L]])
    if (!is.null(path)) must <- paste("`TRUE`, `FALSE` or", must)
    abort_argument(argument, dimnames, must, call = call)
  }
  lapply(dimnames, function(names) if (!is.null(names)) as.character(names))
}

is_h5_matrix <- function(x) inherits(x, "h5_matrix")

check_h5_matrix <- function(x, argument = "m", call = rlang::caller_env()) {
  if (missing(x) || !is_h5_matrix(x)) {
    abort_argument(argument, x, "a matrix in a file, as `h5_matrix()` makes it", call = call)
  }
  x
}

dim.h5_object <- function(x) {
  x <- h5_fields(x)
  if (x$transposed) rev(x$dim) else x$dim
}

dimnames.h5_object <- function(x) {
  x <- h5_fields(x)
  if (x$transposed && !is.null(x$dimnames)) rev(x$dimnames) else x$dimnames
}

t.h5_object <- function(x) {
  fields <- h5_fields(x)
  fields$transposed <- !fields$transposed
  h5_object(fields, class(x))
}

`[.h5_matrix` <- function(x, ..., drop = TRUE) {
  at <- h5_subscripts(x, ...)
  h5_part(x, at$rows, at$columns, h5_drops(drop) && at$count == 2L)
}

# Their names mean nothing, as in R: `m[j = 2, i = 1]` is row 2 of column 1. NULL for all.
h5_subscripts <- function(x, ...) {
  call <- parent.frame()
  count <- ...length()
  if (count == 1L && !missing(..1)) {
    must <- "one of two subscripts: `m[i, j]`; a matrix in a file has no single ones"
    abort_argument("i", ..1, must, call = call)
  }
  if (count > 2L) h5_subscript_error(sprintf("there are %d subscripts for a matrix, which has 2", count), x, call)
  list(
    rows = if (count == 2L && !missing(..1)) h5_positions(..1, x, 1L, call),
    columns = if (count == 2L && !missing(..2)) h5_positions(..2, x, 2L, call), count = count
  )
}

# Whatever is not FALSE.
h5_drops <- function(drop) !isFALSE(as.logical(drop)[1L])

`[[.h5_object` <- function(x, ..., exact = TRUE) {
  if (...length() < 2L) h5_refuse_vector("a list", sys.call())
  at <- h5_subscripts(x, ...)
  if (length(at$rows) != 1L || length(at$columns) != 1L) {
    what <- "`m[[i, j]]` is one element: one row and one column are to be chosen"
    h5_subscript_error(what, x, rlang::current_env())
  }
  read <- if (inherits(x, "h5_sparse")) h5_sparse_part else function(...) h5_part(..., drop = FALSE)
  as.vector(as.matrix(read(x, at$rows, at$columns)))
}

# NULL for all. Positions are whole numbers from 1 to the extent.
h5_positions <- function(index, x, k, call = rlang::caller_env()) {
  extent <- dim(x)[[k]]
  axis <- c("row", "column")[[k]]
  names <- dimnames(x)[[k]]
  if (is.factor(index)) index <- as.integer(index)
  if (is.null(index)) index <- integer()
  if (is.character(index)) {
    found <- match(index, names)
    found[is.na(index) | !nzchar(index)] <- NA # no name, as R has it, also where there is one that looks like it
    if (anyNA(found)) {
      what <- sprintf("there is no %s %s", axis, quoted(index[is.na(found)][[1L]]))
      none <- ": %ss have no names here, `dimnames(m) <- list(rows, columns)` gives some"
      h5_subscript_error(paste0(what, if (is.null(names)) sprintf(none, axis)), x, call)
    }
    return(found)
  }
  if (is.logical(index)) {
    if (anyNA(index)) h5_subscript_error("a logical subscript is `NA`", x, call)
    if (length(index) > extent) {
      h5_subscript_error(sprintf("%d logical subscripts for %.0f %ss", length(index), extent, axis), x, call)
    }
    return(which(rep_len(index, extent)))
  }
  if (!is.numeric(index) || is_integer64(index)) {
    h5_subscript_error(sprintf("%s is no subscript", describe_value(index)), x, call)
  }
  if (anyNA(index)) h5_subscript_error(sprintf("a %s is `NA`", axis), x, call)
  index <- trunc(index)
  if (any(index == -Inf)) h5_subscript_error(sprintf("there is no %s -Inf", axis), x, call)
  if (any(index < 0)) {
    if (any(index > 0)) h5_subscript_error("positive and negative subscripts are mixed", x, call)
    away <- unique(-index[index >= -extent & index < 0])
    return(if (length(away) == 0L) NULL else seq_len(extent)[-away])
  }
  index <- index[index != 0]
  if (length(index) > 0L && max(index) > extent) {
    h5_subscript_error(sprintf("there is no %s %.0f: the matrix has %.0f", axis, max(index), extent), x, call)
  }
  index
}

h5_subscript_error <- function(what, x, call) {
  failure <- list(
    message = sprintf("%s (%s).", what, h5_place(x)), path = h5_fields(x)$path, name = h5_fields(x)$name,
    chunk = "", filter = "", advice = ""
  )
  signal_error(error_h5(failure, rlang::error_call(call)))
}

h5_place <- function(x) {
  x <- h5_fields(x)
  sprintf("`%s` in %s", x$name, x$path)
}

h5_r_type <- function(x) {
  switch(h5_fields(x)$type,
    boolean = "logical",
    int8 = , uint8 = , int16 = , uint16 = , int32 = "integer",
    "double"
  )
}

h5_part <- function(x, rows, columns, drop, call = rlang::caller_env()) {
  fields <- h5_fields(x)
  fast <- if (fields$transposed) columns else rows
  slow <- if (fields$transposed) rows else columns
  part <- with_cores(h5_threads(NULL), call, function(threads) {
    h5_call_cached(x, "ffi_h5_read", h5_source(x), slow, fast, h5_r_type(x), threads, call = call)
  })
  if (part$rounded) warning(warning_rounded(h5_place(x)))
  names <- dimnames(x)
  extent <- dim(x)
  if (!is.null(rows)) extent[[1L]] <- length(rows)
  if (!is.null(columns)) extent[[2L]] <- length(columns)
  values <- part$values
  dim(values) <- if (fields$transposed) rev(extent) else extent
  if (fields$transposed) values <- t(values)
  if (!is.null(names)) {
    if (!is.null(rows) && !is.null(names[[1L]])) names[[1L]] <- names[[1L]][rows]
    if (!is.null(columns) && !is.null(names[[2L]])) names[[2L]] <- names[[2L]][columns]
    dimnames(values) <- names
  }
  if (drop) drop(values) else values
}

as.matrix.h5_matrix <- function(x, ...) {
  h5_part(x, NULL, NULL, drop = FALSE)
}

format.h5_matrix <- function(x, ...) {
  fields <- h5_fields(x)
  shape <- function(dim) format_extents(if (fields$transposed) rev(dim) else dim, ",")
  names <- dimnames(x)
  example <- function(k) {
    if (is.null(names[[k]])) "none" else shorten(paste(utils::head(names[[k]], 4L), collapse = ", "), 50L)
  }
  c(
    sprintf("<h5_matrix> %s of %s", shape(fields$dim), fields$type),
    sprintf("  dataset   %s%s", fields$name, if (fields$transposed) ", transposed" else ""),
    if (length(fields$plane) > 0L) sprintf("  plane     %s", paste(format_count(rev(fields$plane)), collapse = ", ")),
    sprintf("  file      %s", fields$path),
    sprintf("  stored    %s%s", h5_layout(fields, shape), h5_stored_words(fields)),
    if (length(fields$filters) > 0L) sprintf("  filters   %s", paste(fields$filters, collapse = ", ")),
    h5_cache_line(x),
    sprintf("  rows      %s", example(1L)),
    sprintf("  columns   %s", example(2L))
  )
}

# Nothing where the file cannot be read any more, of which the next use of the object tells.
h5_stored_words <- function(fields) {
  bytes <- or_else(h5_call("ffi_h5_stored", fields$path, fields$name), NULL)
  if (is.null(bytes)) "" else paste0(", ", format_bytes(bytes))
}

h5_layout <- function(fields, shape) {
  if (is.null(fields$chunk)) fields$layout else paste("chunks of", shape(fields$chunk))
}

print.h5_object <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

# A list would show its fields.
str.h5_object <- function(object, ...) {
  writeLines(paste0(" ", format(object)[[1L]]))
  invisible(NULL)
}

length.h5_object <- function(x) {
  prod(dim(x))
}
