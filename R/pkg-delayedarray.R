# DelayedArray: h5_matrix() and h5_sparse() are seeds of delayed arrays. The contract is a few generic
# functions, which are given methods when that package is loaded; nothing of it is imported. Those that
# reduce rows or columns go to h5_stats(), which decodes in threads: DelayedMatrixStats asks for the method
# of the seed's class before it reads blocks.

delayedarray_hook <- function() {
  if (isNamespaceLoaded("DelayedArray")) delayedarray_register()
  setHook(packageEvent("DelayedArray", "onLoad"), function(...) delayedarray_register())
  # Its own generics are there by then, those of the statistics may come later.
  if (isNamespaceLoaded("MatrixGenerics")) matrixgenerics_register()
  setHook(packageEvent("MatrixGenerics", "onLoad"), function(...) matrixgenerics_register())
}

delayedarray_classes <- c("h5_matrix", "h5_sparse")

# Methods live in an environment of their own: a namespace is locked by the time they are set.
delayedarray_where <- function() {
  if (is.null(the$delayedarray)) {
    where <- new.env(parent = asNamespace("regatta"))
    assign(".packageName", "regatta", envir = where)
    for (class in delayedarray_classes) methods::setOldClass(c(class, "h5_object"), where = where)
    the$delayedarray <- where
  }
  the$delayedarray
}

# The generic of the first package that is loaded and has it: they have moved between packages.
delayedarray_generic <- function(name, packages) {
  for (package in packages) {
    if (isNamespaceLoaded(package)) {
      generic <- methods::getGeneric(name, where = asNamespace(package))
      if (!is.null(generic)) return(generic)
    }
  }
  NULL
}

delayedarray_set <- function(name, packages, method, classes = delayedarray_classes) {
  generic <- delayedarray_generic(name, packages)
  if (is.null(generic)) {
    return(invisible(FALSE))
  }
  where <- delayedarray_where()
  for (class in classes) methods::setMethod(generic, class, method, where = where)
  invisible(TRUE)
}

delayedarray_register <- function() {
  packages <- c("S4Arrays", "SparseArray", "DelayedArray", "BiocGenerics")
  delayedarray_set("extract_array", packages, function(x, index) h5_seed_array(x, index))
  # As HDF5Array has it: functions of matrixStats such as rowTabulates() are for integers only.
  delayedarray_set("type", packages, function(x) h5_r_type(x))
  delayedarray_set("path", packages, function(object, ...) h5_fields(object)$path)
  delayedarray_set("chunkdim", packages, function(x) h5_seed_chunk(x), "h5_matrix")
  delayedarray_set("is_sparse", packages, function(x) TRUE, "h5_sparse")
  delayedarray_set("extract_sparse_array", packages, function(x, index) h5_seed_sparse(x, index), "h5_sparse")
  delayedarray_set_class()
  if (isNamespaceLoaded("MatrixGenerics")) matrixgenerics_register()
}

# Delayed arrays on our seeds are of a class of their own, so that there can be methods for what is computed block
# by block otherwise. It is a DelayedMatrix; whatever is done to one, a subscript or an operation, gives one of
# DelayedArray's, or one whose seed is another.
delayedarray_class <- "h5_DelayedMatrix"

delayedarray_set_class <- function() {
  where <- delayedarray_where()
  methods::setClass(delayedarray_class, contains = "DelayedMatrix", where = where)
  make <- getExportedValue("DelayedArray", "new_DelayedArray")
  delayedarray_set("DelayedArray", "DelayedArray", function(seed) make(seed, delayedarray_class))
  for (name in c("colSums", "rowSums", "colMeans", "rowMeans")) {
    delayedarray_set_base(name, if (startsWith(name, "col")) 2L else 1L, if (endsWith(name, "Sums")) "sum" else "mean")
  }
}

# A method for one of base's functions, which is a generic of DelayedArray's by now, or of a package that it uses.
delayedarray_set_base <- function(name, margin, stat) {
  force(margin)
  force(stat)
  packages <- c("BiocGenerics", "DelayedArray")
  generic <- delayedarray_generic(name, packages)
  if (is.null(generic)) {
    return(invisible(FALSE))
  }
  method <- function(x, na.rm, dims) {
    if (identical(as.double(dims), 1) && inherits(x@seed, delayedarray_classes)) {
      return(h5_one(x@seed, margin, stat, na.rm = na.rm))
    }
    methods::callNextMethod()
  }
  # The defaults, and whether there are dots, depend on who made the generic.
  formals(method) <- formals(methods::slot(generic, ".Data"))
  delayedarray_set(name, packages, method, delayedarray_class)
}

# Positions are integers, or NULL for all.
h5_seed_array <- function(x, index) {
  part <- if (inherits(x, "h5_sparse")) h5_sparse_part(x, index[[1L]], index[[2L]]) else {
    h5_part(x, index[[1L]], index[[2L]], drop = FALSE)
  }
  part <- as.matrix(part)
  dimnames(part) <- NULL
  # Sparse matrices of package Matrix have no integers.
  storage.mode(part) <- h5_r_type(x)
  part
}

h5_seed_chunk <- function(x) {
  fields <- h5_fields(x)
  if (is.null(fields$chunk)) return(NULL)
  chunk <- if (fields$transposed) rev(fields$chunk) else fields$chunk
  # A chunk may be larger than the matrix, which the contract does not allow.
  as.integer(pmin(chunk, pmax(dim(x), 1L)))
}

# In the new generation a sparse matrix of the package Matrix will do, in the old one its own class.
h5_seed_sparse <- function(x, index) {
  part <- h5_sparse_part(x, index[[1L]], index[[2L]])
  dimnames(part) <- NULL
  type <- h5_r_type(x)
  if (isNamespaceLoaded("SparseArray")) {
    set_type <- getExportedValue("BiocGenerics", "type<-")
    return(set_type(methods::as(part, "SVT_SparseMatrix"), value = type))
  }
  seed <- methods::as(part, "SparseArraySeed")
  storage.mode(seed@nzdata) <- type
  seed
}

# `rows`, `cols`, `na.rm`, `center` and `useNames` are those of matrixStats.
matrixgenerics_register <- function() {
  stats <- c(Sums2 = "sum", Means2 = "mean", Mins = "min", Maxs = "max", Vars = "var", Sds = "sd", Medians = "median")
  for (name in names(stats)) {
    make <- if (name %in% c("Vars", "Sds")) matrixgenerics_spread else matrixgenerics_method
    matrixgenerics_set(paste0("col", name), make(2L, stats[[name]]))
    matrixgenerics_set(paste0("row", name), make(1L, stats[[name]]))
  }
  if (!is.null(the$delayedarray) && methods::isClass(delayedarray_class, where = the$delayedarray)) {
    for (name in c("colMins", "colMaxs", "rowMins", "rowMaxs")) matrixgenerics_set_range(name)
  }
}

# Whether there are names by default is the generic's: NA in the old generation, TRUE in the new one.
matrixgenerics_set <- function(name, method, classes = delayedarray_classes) {
  generic <- delayedarray_generic(name, "MatrixGenerics")
  if (is.null(generic)) {
    return(invisible(FALSE))
  }
  formals(method)$useNames <- formals(methods::slot(generic, ".Data"))$useNames
  delayedarray_set(name, "MatrixGenerics", method, classes)
}

# DelayedArray has methods of its own for these, which do not ask the seed.
matrixgenerics_set_range <- function(name) {
  margin <- if (startsWith(name, "col")) 2L else 1L
  of_seed <- matrixgenerics_method(margin, if (endsWith(name, "Mins")) "min" else "max")
  matrixgenerics_set(name, function(x, rows = NULL, cols = NULL, na.rm = FALSE, ..., useNames = NA) {
    if (!inherits(x@seed, delayedarray_classes)) {
      return(methods::callNextMethod())
    }
    of_seed(x@seed, rows = rows, cols = cols, na.rm = na.rm, useNames = useNames)
  }, delayedarray_class)
}

matrixgenerics_method <- function(margin, stat) {
  force(margin)
  force(stat)
  function(x, rows = NULL, cols = NULL, na.rm = FALSE, ..., useNames = NA) {
    values <- h5_one(x, margin, stat, na.rm = na.rm, rows = rows, columns = cols)
    # Extremes of integers are integers in matrixStats, too; those of nothing are infinite.
    whole <- stat %in% c("min", "max") && h5_r_type(x) == "integer" && !any(is.infinite(values))
    if (whole) storage.mode(values) <- "integer"
    if (isTRUE(useNames)) values else unname(values)
  }
}

matrixgenerics_spread <- function(margin, stat) {
  force(margin)
  force(stat)
  function(x, rows = NULL, cols = NULL, na.rm = FALSE, center = NULL, ..., useNames = NA) {
    if (is.null(center)) {
      values <- h5_one(x, margin, stat, na.rm = na.rm, rows = rows, columns = cols)
    } else {
      # Distances are those from the centers that are given, the divisor remains.
      found <- h5_stats(x, margin, c("mean", "var", "count"), na.rm = na.rm, rows = rows, columns = cols)
      values <- found$var + found$count / (found$count - 1) * (found$mean - center)^2
      if (stat == "sd") values <- sqrt(values)
      names(values) <- if (is.character(attr(found, "row.names"))) row.names(found)
    }
    if (isTRUE(useNames)) values else unname(values)
  }
}

# What HDF5Array has opened, as objects of this package: the file is the same.
as_h5_matrix <- function(x) {
  check_given(x, "x", "an `HDF5Matrix` or `H5SparseMatrix`")
  if (inherits(x, delayedarray_classes)) {
    return(x)
  }
  seed <- x
  turned <- FALSE
  # Names of classes that may be unknown here: methods::is(x, class) would look for them in this package.
  kind <- function(x) if (isS4(x)) methods::is(x) else class(x)
  while (isS4(seed) && methods::.hasSlot(seed, "seed")) {
    swaps <- "DelayedAperm" %in% kind(seed) && identical(seed@perm, 2:1)
    if (swaps) turned <- !turned
    # A delayed array is one by itself, which does nothing.
    if (!swaps && !"DelayedArray" %in% kind(seed)) break
    seed <- seed@seed
  }
  if (inherits(seed, delayedarray_classes)) {
    found <- seed
  } else if ("HDF5ArraySeed" %in% kind(seed) && length(dim(seed)) == 2L) {
    found <- h5_matrix(seed@filepath, seed@name)
  } else if ("H5SparseMatrixSeed" %in% kind(seed)) {
    found <- h5_sparse(seed@filepath, seed@group)
    if (!identical(dim(found), dim(seed))) found <- t(found)
  } else {
    abort_argument("x", x, "an `HDF5Matrix` or `H5SparseMatrix` without delayed operations but transposition")
  }
  if (turned) t(found) else found
}
