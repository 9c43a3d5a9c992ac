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

Ops.h5_matrix <- function(e1, e2) h5_refuse_compute(.Generic, sys.call(-1L))
Math.h5_matrix <- function(x, ...) h5_refuse_compute(.Generic, sys.call(-1L))
Summary.h5_matrix <- function(..., na.rm = FALSE) h5_refuse_compute(.Generic, sys.call(-1L))
mean.h5_matrix <- function(x, ...) h5_refuse_compute("mean", sys.call(-1L))

# What takes a matrix as a vector or a list of its elements.
is.na.h5_matrix <- function(x) h5_refuse_compute("is.na", sys.call())
na.omit.h5_matrix <- function(object, ...) h5_refuse_compute("na.omit", sys.call())
na.exclude.h5_matrix <- function(object, ...) h5_refuse_compute("na.exclude", sys.call())
unique.h5_matrix <- function(x, incomparables = FALSE, ...) h5_refuse_compute("unique", sys.call())
duplicated.h5_matrix <- function(x, incomparables = FALSE, ...) h5_refuse_compute("duplicated", sys.call())
unlist.h5_matrix <- function(x, recursive = TRUE, use.names = TRUE) h5_refuse_compute("unlist", sys.call())
c.h5_matrix <- function(...) h5_refuse_compute("c", sys.call())
as.list.h5_matrix <- function(x, ...) h5_refuse_vector("a list", sys.call())
as.vector.h5_matrix <- function(x, mode = "any") h5_refuse_vector("a vector", sys.call())
as.double.h5_matrix <- function(x, ...) h5_refuse_vector("a vector", sys.call())
as.integer.h5_matrix <- as.double.h5_matrix
as.logical.h5_matrix <- as.double.h5_matrix
as.character.h5_matrix <- as.double.h5_matrix
`$.h5_matrix` <- function(x, name) h5_refuse_vector("a list", sys.call())

h5_refuse_vector <- function(kind, call) {
  advice <- "Read what you need, `m[i, j]`, or let `h5_apply()` call a function with blocks of rows or columns."
  h5_refuse(sprintf("a matrix in a file is not %s.", kind), advice, call)
}

anyNA.h5_matrix <- function(x, recursive = FALSE) {
  any(h5_reduce(rlang::current_env(), x, 2L, "count")$count < nrow(x))
}

names.h5_matrix <- function(x) NULL

`[<-.h5_matrix` <- function(x, i, j, value) {
  h5_refuse("a matrix in a file is not written to.", "`h5_write()` and `h5_fill()` make another one.", sys.call(-1L))
}

# R would put the fields of the objects side by side.
rbind.h5_matrix <- function(..., deparse.level = 1) {
  advice <- "Read them, `m[, ]`, or put together delayed arrays: `rbind(DelayedArray(a), DelayedArray(b))`."
  h5_refuse("matrices in files are not put together.", advice, sys.call(-1L))
}
cbind.h5_matrix <- rbind.h5_matrix

Ops.h5_sparse <- Ops.h5_matrix
Math.h5_sparse <- Math.h5_matrix
Summary.h5_sparse <- Summary.h5_matrix
mean.h5_sparse <- mean.h5_matrix
is.na.h5_sparse <- is.na.h5_matrix
na.omit.h5_sparse <- na.omit.h5_matrix
na.exclude.h5_sparse <- na.exclude.h5_matrix
unique.h5_sparse <- unique.h5_matrix
duplicated.h5_sparse <- duplicated.h5_matrix
unlist.h5_sparse <- unlist.h5_matrix
c.h5_sparse <- c.h5_matrix
as.list.h5_sparse <- as.list.h5_matrix
as.vector.h5_sparse <- as.vector.h5_matrix
as.double.h5_sparse <- as.double.h5_matrix
as.integer.h5_sparse <- as.integer.h5_matrix
as.logical.h5_sparse <- as.logical.h5_matrix
as.character.h5_sparse <- as.character.h5_matrix
`$.h5_sparse` <- `$.h5_matrix`
anyNA.h5_sparse <- anyNA.h5_matrix
names.h5_sparse <- names.h5_matrix
`[<-.h5_sparse` <- `[<-.h5_matrix`
rbind.h5_sparse <- rbind.h5_matrix
cbind.h5_sparse <- cbind.h5_matrix

# Names are the object's own, not the file's.
`dimnames<-.h5_matrix` <- function(x, value) {
  names <- h5_given_names(value, argument = "value", dim = dim(x))
  fields <- h5_fields(x)
  fields$dimnames <- if (fields$transposed) rev(names) else names
  if (is.null(names)) fields["dimnames"] <- list(NULL)
  h5_object(fields, class(x))
}

`dimnames<-.h5_sparse` <- `dimnames<-.h5_matrix`
