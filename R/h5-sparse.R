# A sparse matrix in an HDF5 file, as 10x Genomics and AnnData store it: three vectors.

h5_sparse <- function(path, name = NULL, dimnames = TRUE) {
  h5_needed()
  path <- h5_path(path)
  name <- if (is.null(name)) h5_find_sparse(path) else sub("/+$", "", h5_name(name))
  format <- h5_sparse_format(path, name)
  data <- h5_call("ffi_h5_describe", path, paste0(name, "/data"))
  names <- if (isTRUE(dimnames)) {
    h5_sparse_names(path, name, format)
  } else {
    h5_given_names(dimnames, path, name, format$dim)
  }
  h5_object(
    list(
      path = path, name = name, dim = h5_dim(format$dim), dimnames = names, format = format$format,
      # The dimension whose entries lie side by side.
      major = format$major, type = data$type, entries = prod(data$extents),
      chunk = data$chunk, filters = data$filters, transposed = FALSE,
      shape = data[c("extents", "chunk", "type")]
    ),
    "h5_sparse"
  )
}

# The group with a sparse matrix in a file that has one.
h5_find_sparse <- function(path, call = rlang::caller_env()) {
  found <- h5_call("ffi_h5_list", path, "/", call = call)$name
  groups <- sub("/indptr$", "", grep("/indptr$", found, value = TRUE))
  groups <- groups[paste0(groups, "/data") %in% found & paste0(groups, "/indices") %in% found]
  for (usual in c("matrix", "X")) {
    if (usual %in% groups) {
      return(usual)
    }
  }
  if (length(groups) != 1L) {
    advice <- if (length(groups) > 1L) paste("Give `name`, one of", paste0(quoted(groups), ".")) else ""
    what <- if (length(groups) > 1L) "several sparse matrices" else "no sparse matrix"
    failure <- list(
      message = sprintf("there %s %s in %s", if (length(groups) > 1L) "are" else "is", what, path),
      path = path, name = "", chunk = "", filter = "", advice = advice
    )
    signal_error(error_h5(failure, rlang::error_call(call)))
  }
  groups
}

# In R's orientation, features by cells: 10x stores the shape so, AnnData has cells by features.
h5_sparse_format <- function(path, name, call = rlang::caller_env()) {
  encoding <- h5_values(path, name, "encoding-type", call = call)
  shape <- h5_values(path, name, "shape", call = call)
  if (is.null(encoding)) {
    encoding <- h5_values(path, name, "h5sparse_format", call = call)
    shape <- h5_values(path, name, "h5sparse_shape", call = call)
  }
  kind <- if (is.character(encoding)) sub("_matrix$", "", encoding[[1L]]) else "10x"
  if (kind == "10x") shape <- h5_values(path, paste0(name, "/shape"), call = call)
  if (!kind %in% c("csr", "csc", "10x") || !is.numeric(shape) || length(shape) != 2L || anyNA(shape) ||
    any(shape < 0)) {
    failure <- list(
      message = sprintf("`%s` in %s is no sparse matrix as 10x Genomics or AnnData store it", name, path),
      path = path, name = name, chunk = "", filter = "", advice = ""
    )
    signal_error(error_h5(failure, rlang::error_call(call)))
  }
  shape <- as.double(shape)
  switch(kind,
    "10x" = list(format = "10x", dim = shape, major = 2L),
    csr = list(format = "AnnData, CSR", dim = rev(shape), major = 2L),
    csc = list(format = "AnnData, CSC", dim = rev(shape), major = 1L)
  )
}

h5_sparse_names <- function(path, name, format) {
  if (format$format != "10x") {
    return(h5_stored_names(path, name, format$dim))
  }
  inside <- function(what) h5_values(path, paste0(name, "/", what))
  features <- inside("features/id")
  if (is.null(features)) features <- inside("genes")
  found <- list(features, inside("barcodes"))
  found <- lapply(1:2, function(k) if (length(found[[k]]) == format$dim[[k]]) h5_name_strings(found[[k]]))
  if (all(lengths(found) == 0L)) NULL else found
}

# Beside the values: their positions, and where those of each row or column begin. The extents of the matrix, which
# stand in none of the three, have to be what they were.
h5_sparse_others <- function(m, call = rlang::caller_env()) {
  fields <- h5_fields(m)
  now <- h5_sparse_format(fields$path, fields$name, call)
  if (!identical(c(now$dim, now$major), as.double(c(fields$dim, fields$major)))) {
    words <- function(dim, major) {
      sprintf("%.0f x %.0f, stored by %s", dim[[1L]], dim[[2L]], c("rows", "columns")[[major]])
    }
    failure <- list(
      message = sprintf("the file has changed: %s is %s, and was %s when the matrix was opened", h5_place(m),
        words(now$dim, now$major), words(fields$dim, fields$major)),
      path = fields$path, name = fields$name, chunk = "", filter = "", advice = "Open it again."
    )
    signal_error(error_h5(failure, rlang::error_call(call)))
  }
  paste0(fields$name, c("/indices", "/indptr"))
}

# For each dimension what the C++ side has found.
h5_sparse_totals <- function(m, axes, what, call) {
  fields <- h5_fields(m)
  major <- if (fields$transposed) 3L - fields$major else fields$major
  order <- c(major, 3L - major)
  found <- with_cores(what$threads, call, function(threads) {
    h5_call_cached(
      m, "ffi_h5_sparse_stats", h5_source(m), h5_sparse_others(m, call),
      as.double(dim(m)[order]), h5_groups(axes[order]),
      c(h5_wanted(what$stats), order %in% what$margin, what$progress), threads, what$memory,
      call = call
    )
  })
  found[order(order)]
}

`[.h5_sparse` <- function(x, ..., drop = TRUE) {
  at <- h5_subscripts(x, ...)
  part <- h5_sparse_part(x, at$rows, at$columns)
  if (h5_drops(drop) && at$count == 2L && any(dim(part) == 1L)) drop(as.matrix(part)) else part
}

as.matrix.h5_sparse <- function(x, ...) {
  as.matrix(h5_sparse_part(x, NULL, NULL))
}

# A dgCMatrix of the package Matrix. From the file come entries of rising positions, each once; what was
# asked for is made of them in memory.
h5_sparse_part <- function(x, rows, columns, call = rlang::caller_env()) {
  rlang::check_installed("Matrix", "for parts of sparse matrices", call = call)
  fields <- h5_fields(x)
  major <- if (fields$transposed) 3L - fields$major else fields$major
  chosen <- list(rows, columns)
  rising <- lapply(chosen, function(at) if (!is.null(at)) sort(unique(at)))
  minor <- rising[[3L - major]]
  to <- if (!is.null(minor)) replace(rep(-1L, dim(x)[[3L - major]]), minor, seq_along(minor) - 1L)
  found <- with_cores(h5_threads(NULL), call, function(threads) {
    h5_call_cached(
      x, "ffi_h5_sparse_read", h5_source(x), h5_sparse_others(x, call),
      as.double(dim(x)[c(major, 3L - major)]), rising[[major]], to, threads,
      call = call
    )
  })
  if (found$rounded) warning(warning_rounded(h5_place(x)))
  extent <- ifelse(lengths(chosen) > 0L | !vapply(chosen, is.null, NA), lengths(rising), dim(x))
  entries <- list(p = found$pointers, x = found$value, index1 = FALSE)
  entries[[if (major == 2L) "i" else "j"]] <- found$index
  part <- do.call(Matrix::sparseMatrix, c(entries, list(dims = extent)))
  again <- lapply(1:2, function(k) {
    if (is.null(chosen[[k]])) TRUE else match(chosen[[k]], rising[[k]])
  })
  if (!all(vapply(again, function(at) isTRUE(at) || identical(at, seq_along(at)), NA))) {
    part <- part[again[[1L]], again[[2L]], drop = FALSE]
  }
  names <- dimnames(x)
  for (k in 1:2) {
    if (!is.null(names[[k]]) && !is.null(chosen[[k]])) names[[k]] <- names[[k]][chosen[[k]]]
  }
  if (!is.null(names)) dimnames(part) <- names
  part
}

format.h5_sparse <- function(x, ...) {
  fields <- h5_fields(x)
  shape <- format_extents(dim(x), ",")
  all <- prod(dim(x))
  c(
    sprintf("<h5_sparse> %s of %s, %s entries (%s%%)", shape, fields$type,
      format_count(fields$entries),
      if (all > 0) format_number(100 * fields$entries / all, 2L) else "0"),
    sprintf("  group     %s (%s)%s", fields$name, fields$format, if (fields$transposed) ", transposed" else ""),
    sprintf("  file      %s", fields$path),
    if (length(fields$filters) > 0L) sprintf("  filters   %s", paste(fields$filters, collapse = ", ")),
    h5_cache_line(x)
  )
}

