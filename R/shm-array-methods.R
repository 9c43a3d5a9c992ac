# What functions of R give for a shared array: what they give for the ordinary one.

Ops.shm_array <- function(e1, e2) {
  # Bound to names, so that R does not take the memory for its result.
  if (missing(e2)) {
    e1 <- shm_copy(e1)
    return(get(.Generic)(e1))
  }
  e1 <- shm_plain(e1)
  e2 <- shm_plain(e2)
  get(.Generic)(e1, e2)
}

# Where the other operand has a method of its own: that of arrays, which leads to it. R asks since 4.3; before, it
# takes neither, with a warning.
chooseOpsMethod.shm_array <- function(x, y, mx, my, cl, reverse) TRUE

Math.shm_array <- function(x, ...) {
  x <- shm_plain(x)
  get(.Generic)(x, ...)
}

as.matrix.shm_array <- function(x, ...) {
  as.matrix(shm_copy(x), ...)
}

# The column of a vector, and of an array of one dimension, has the name of the argument, which only this call tells.
as.data.frame.shm_array <- function(x, row.names = NULL, optional = FALSE, ..., nm = deparse1(substitute(x))) {
  force(nm)
  x <- shm_copy(x)
  if (is.null(dim(x))) {
    return(as.data.frame(x, row.names, optional, ..., nm = nm))
  }
  frame <- as.data.frame(x, row.names, optional, ...)
  if (length(dim(x)) == 1L && !optional) names(frame) <- nm
  frame
}

as.vector.shm_array <- function(x, mode = "any") {
  as.vector(shm_copy(x), mode)
}

as.double.shm_array <- function(x, ...) {
  as.double(shm_copy(x), ...)
}

as.integer.shm_array <- function(x, ...) {
  as.integer(shm_copy(x), ...)
}

as.array.shm_array <- function(x, ...) {
  as.array(shm_copy(x), ...)
}

t.shm_array <- function(x) {
  x <- shm_plain(x)
  t(x)
}

# R has methods for the implicit class of a matrix or array, which an object with a class does not
# reach. These lead to them, and give what does not stand on the memory of the array.

unique.shm_array <- function(x, incomparables = FALSE, ...) {
  x <- shm_plain(x)
  unique(x, incomparables, ...)
}

duplicated.shm_array <- function(x, incomparables = FALSE, ...) {
  x <- shm_plain(x)
  duplicated(x, incomparables, ...)
}

anyDuplicated.shm_array <- function(x, incomparables = FALSE, ...) {
  x <- shm_plain(x)
  anyDuplicated(x, incomparables, ...)
}

subset.shm_array <- function(x, ...) {
  x <- shm_plain(x)
  subset(x, ...)
}

head.shm_array <- function(x, ...) {
  x <- shm_plain(x)
  head(x, ...)
}

tail.shm_array <- function(x, ...) {
  x <- shm_plain(x)
  tail(x, ...)
}

summary.shm_array <- function(object, ...) {
  object <- shm_plain(object)
  summary(object, ...)
}

determinant.shm_array <- function(x, logarithm = TRUE, ...) {
  x <- shm_plain(x)
  determinant(x, logarithm, ...)
}

isSymmetric.shm_array <- function(object, ...) {
  object <- shm_plain(object)
  isSymmetric(object, ...)
}

as.raster.shm_array <- function(x, ...) {
  x <- shm_plain(x)
  as.raster(x, ...)
}

boxplot.shm_array <- function(x, ...) {
  x <- shm_plain(x)
  boxplot(x, ...)
}

# What match() and %in% compare: text for other classes, which is neither TRUE for 1 nor 0.1 + 0.2 for itself.
mtfrm.shm_array <- function(x) shm_plain(x)

as.Date.shm_array <- function(x, ...) {
  x <- shm_plain(x)
  as.Date(x, ...)
}

as.POSIXct.shm_array <- function(x, tz = "", ...) {
  x <- shm_plain(x)
  as.POSIXct(x, tz, ...)
}

as.POSIXlt.shm_array <- function(x, tz = "", ...) {
  x <- shm_plain(x)
  as.POSIXlt(x, tz, ...)
}

# Of the generics below, some give their argument where there is nothing to do, or with it: a copy.

sort.shm_array <- function(x, decreasing = FALSE, ...) {
  x <- shm_copy(x)
  sort(x, decreasing, ...)
}

rep.shm_array <- function(x, ...) {
  x <- shm_copy(x)
  rep(x, ...)
}

rev.shm_array <- function(x) {
  x <- shm_copy(x)
  rev(x)
}

qqnorm.shm_array <- function(y, ...) {
  y <- shm_copy(y)
  qqnorm(y, ...)
}

Complex.shm_array <- function(z) {
  z <- shm_copy(z)
  get(.Generic)(z)
}

diff.shm_array <- function(x, ...) {
  x <- shm_copy(x)
  diff(x, ...)
}

lag.shm_array <- function(x, ...) {
  x <- shm_copy(x)
  lag(x, ...)
}

na.omit.shm_array <- function(object, ...) {
  object <- shm_copy(object)
  na.omit(object, ...)
}

unlist.shm_array <- function(x, recursive = TRUE, use.names = TRUE) {
  shm_copy(x)
}
