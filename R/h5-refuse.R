# What R would do to the list behind a matrix in a file, with messages that help nobody, or with a wrong value.

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
`[<-.h5_sparse` <- `[<-.h5_matrix`
rbind.h5_sparse <- rbind.h5_matrix
cbind.h5_sparse <- cbind.h5_matrix

# Names are the object's own, not the file's.
`dimnames<-.h5_matrix` <- function(x, value) {
  names <- h5_given_names(value, argument = "value", dim = dim(x))
  fields <- unclass(x)
  fields$dimnames <- if (fields$transposed) rev(names) else names
  if (is.null(names)) fields["dimnames"] <- list(NULL)
  structure(fields, class = class(x))
}

`dimnames<-.h5_sparse` <- `dimnames<-.h5_matrix`
