# What R would do to the environment behind a matrix in a file, with messages that help nobody, or with a wrong value.

h5_refuse <- function(what, advice, call) {
  signal_error(new_error("regatta_error_h5", what, body = advice, call = call))
}

h5_refuse_compute <- function(name, call) {
  what <- sprintf("`%s` does not compute with a matrix in a file.", name)
  advice <- paste(
    "Read what you need, `m[i, j]`, take `h5_stats()`, `h5_apply()` or `h5_product()`,",
    "or `DelayedArray(m)` of Bioconductor."
  )
  h5_refuse(what, advice, call)
}

Ops.h5_object <- function(e1, e2) h5_refuse_compute(.Generic, sys.call(-1L))
Math.h5_object <- function(x, ...) h5_refuse_compute(.Generic, sys.call(-1L))
Summary.h5_object <- function(..., na.rm = FALSE) h5_refuse_compute(.Generic, sys.call(-1L))
mean.h5_object <- function(x, ...) h5_refuse_compute("mean", sys.call(-1L))

# What takes a matrix as a vector or a list of its elements.
is.na.h5_object <- function(x) h5_refuse_compute("is.na", sys.call())
na.omit.h5_object <- function(object, ...) h5_refuse_compute("na.omit", sys.call())
na.exclude.h5_object <- function(object, ...) h5_refuse_compute("na.exclude", sys.call())
unique.h5_object <- function(x, incomparables = FALSE, ...) h5_refuse_compute("unique", sys.call())
duplicated.h5_object <- function(x, incomparables = FALSE, ...) h5_refuse_compute("duplicated", sys.call())
unlist.h5_object <- function(x, recursive = TRUE, use.names = TRUE) h5_refuse_compute("unlist", sys.call())
c.h5_object <- function(...) h5_refuse_compute("c", sys.call())
as.list.h5_object <- function(x, ...) h5_refuse_vector("a list", sys.call())
as.vector.h5_object <- function(x, mode = "any") h5_refuse_vector("a vector", sys.call())
as.double.h5_object <- function(x, ...) h5_refuse_vector("a vector", sys.call())
as.integer.h5_object <- as.double.h5_object
as.logical.h5_object <- as.double.h5_object
as.character.h5_object <- as.double.h5_object
`$.h5_object` <- function(x, name) h5_refuse_vector("a list", sys.call())

h5_refuse_vector <- function(kind, call) {
  advice <- "Read what you need, `m[i, j]`, or let `h5_apply()` call a function with blocks of rows or columns."
  h5_refuse(sprintf("a matrix in a file is not %s.", kind), advice, call)
}

anyNA.h5_object <- function(x, recursive = FALSE) {
  any(h5_reduce(rlang::current_env(), x, 2L, "count")$count < nrow(x))
}

names.h5_object <- function(x) NULL

`[<-.h5_object` <- function(x, i, j, value) {
  h5_refuse("a matrix in a file is not written to.", "`h5_write()` and `h5_fill()` make another one.", sys.call(-1L))
}

# R would put the fields of the objects side by side.
rbind.h5_object <- function(..., deparse.level = 1) {
  advice <- "Read them, `m[, ]`, or put together delayed arrays: `rbind(DelayedArray(a), DelayedArray(b))`."
  h5_refuse("matrices in files are not put together.", advice, sys.call(-1L))
}
cbind.h5_object <- rbind.h5_object

# Names are the object's own, not the file's.
`dimnames<-.h5_object` <- function(x, value) {
  names <- h5_given_names(value, argument = "value", dim = dim(x))
  fields <- h5_fields(x)
  fields$dimnames <- if (fields$transposed) rev(names) else names
  if (is.null(names)) fields["dimnames"] <- list(NULL)
  h5_object(fields, class(x))
}

