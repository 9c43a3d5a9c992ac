# Delayed arrays on matrices in files, beside those of HDF5Array: both are skipped where they are not
# installed. In a session of their own, since packages of Bioconductor change what functions of this one are found.

# All that DelayedMatrixStats has for rows and columns, of two delayed arrays; at least `least` of it says the same of
# both, and what refuses the second one the first.
compare_lines <- c(
  "compare <- function(a, b, least) {",
  "  names <- c(grep('^(col|row)', getNamespaceExports('DelayedMatrixStats'), value = TRUE), 'colSums', 'rowSums',",
  "    'colMeans', 'rowMeans')",
  "  done <- 0",
  "  for (name in names) {",
  "    along <- if (startsWith(name, 'col')) dim(a) else rev(dim(a))",
  "    args <- switch(sub('^(col|row)', '', name), Counts = list(value = 3L), Ranks = list(ties.method = 'max'),",
  "      OrderStats = list(which = 3L), Collapse = list(idxs = rep_len(1:5, along[[2L]])),",
  "      AvgsPerRowSet = , AvgsPerColSet = list(S = matrix(c(1:6, 9:4), 4)),",
  "      if (grepl('Weighted', name)) list(w = seq_len(along[[1L]])))",
  "    ask <- function(x) try(suppressWarnings(do.call(name, c(list(x), args))), silent = TRUE)",
  "    one <- ask(a); two <- ask(b)",
  "    if (inherits(two, 'try-error')) { stopifnot(inherits(one, 'try-error')); next }",
  "    if (inherits(one, 'try-error')) stop(name, ': ', one)",
  "    same(as.array(one), as.array(two), name)",
  "    done <- done + 1",
  "  }",
  "  if (done < least) stop('only ', done, ' of ', length(names))",
  "}"
)

run_delayed <- function(code) {
  skip_without_h5()
  skip_unless_there("DelayedArray", "DelayedMatrixStats", "HDF5Array", "rhdf5")
  folder <- withr::local_tempdir("h5-")
  script <- withr::local_tempfile(lines = c(
    "suppressPackageStartupMessages({ library(regatta); library(DelayedMatrixStats); library(HDF5Array) })",
    sprintf("setwd(%s)", deparse(folder)), "control <- par_control(workers = 2L, seed = FALSE)",
    "x <- outer(1:61, 1:47, function(i, j) (i * 37L + j * 11L) %% 101L - 30L)",
    "m <- h5_write(x, 'one.h5', 'x', chunk = c(8, 10), .control = control)",
    "same <- function(a, b, what) if (!isTRUE(all.equal(a, b, tolerance = 1e-12))) stop(what, ': ', all.equal(a, b))",
    compare_lines, code, "cat('fine\\n')"
  ))
  found <- suppressWarnings(
    system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", shQuote(script)), stdout = TRUE, stderr = TRUE)
  )
  expect_identical(tail(found, 1L), "fine", info = paste(found, collapse = "\n"))
}

test_that("statistics of a delayed array are those of HDF5Array, and take the fused path", {
  run_delayed(c(
    "a <- DelayedArray(m); b <- HDF5Array('one.h5', 'x')",
    "stopifnot(is(a, 'DelayedMatrix'), identical(dim(a), dim(b)), identical(chunkdim(a), chunkdim(b)))",
    "stopifnot(identical(type(a), type(b)), identical(path(a), path(b)), !is_sparse(a))",
    "stopifnot(identical(as.matrix(a), as.matrix(b)), identical(as.matrix(a[5:2, c(1, 1, 47)]), x[5:2, c(1, 1, 47)]))",
    "compare(a, b, 68)",
    "same(colSums2(a, rows = 3:9, cols = c(2, 5)), colSums(x[3:9, c(2, 5)]), 'chosen')",
    "for (f in c('colMaxs', 'rowMins', 'colSums2', 'rowRanges')) {",
    "  if (!identical(typeof(get(f)(a)), typeof(get(f)(b)))) stop(f, ' of integers is ', typeof(get(f)(a)))",
    "}",
    "same(colSums2(a, rows = c(2, 2, 5)), colSums(x[c(2, 2, 5), ]), 'repeated')",
    "same(rowVars(a, cols = c(9, 1, 9, 9)), rowVars(b, cols = c(9, 1, 9, 9)), 'repeated')",
    "same(colVars(a, center = colMeans(x)), colVars(b, center = colMeans(x)), 'center')",
    # Newer ones refuse what is not near the mean.
    "two <- try(colVars(b, center = rep(1, 47)), silent = TRUE)",
    "if (!inherits(two, 'try-error')) same(colVars(a, center = rep(1, 47)), two, 'center')",
    "for (f in c('colSums', 'rowSums', 'colMeans', 'rowMeans')) {",
    "  for (z in list(a, t(a), a[5:2, ], a + 1L, log(abs(a) + 1))) same(get(f)(z), get(f)(as.matrix(z)), f)",
    "}",
    "n <- h5_matrix('one.h5', 'x', dimnames = list(paste0('r', 1:61), NULL))",
    "same(rowSums(DelayedArray(n)), setNames(rowSums(x), paste0('r', 1:61)), 'names')",
    "b1 <- DelayedArray(m); b1[1, 1] <- 1000L; same(colSums(b1), colSums(as.matrix(b1)), 'changed')",
    "b1 <- DelayedArray(m); dimnames(b1) <- list(NULL, paste0('c', 1:47)); same(colSums(b1), colSums(as.matrix(b1)), 'named')",
    "same(colMaxs(b1), colMaxs(as.matrix(b1)), 'colMaxs')",
    "y <- matrix(cos(1:94), 47)",
    "same(as.matrix(a %*% y), x %*% y, 'product'); same(as.matrix(t(a)), t(x), 't')",
    "same(as.matrix(log1p(abs(a)))[3, ], log1p(abs(x))[3, ], 'delayed')",
    # No block is read: the method of the seed answers. To make one the new generation asks for no element.
    "d <- DelayedArray(m)",
    "trace(extract_array, quote(stop('a block was read')), print = FALSE, where = asNamespace('DelayedArray'))",
    "stopifnot(inherits(try(colMads(d), silent = TRUE), 'try-error'))",
    "for (f in c('colSums2', 'rowSums2', 'colMeans2', 'rowMeans2', 'colVars', 'rowSds', 'colSums', 'rowSums', 'colMeans',",
    "  'rowMeans', 'colMaxs', 'rowMins', 'colMedians', 'rowMedians')) {",
    "  if (inherits(try(get(f)(d)), 'try-error')) stop(f)",
    "}"
  ))
})

test_that("sparse matrices are seeds, and what HDF5Array has opened is converted", {
  # rhdf5 leaves libhdf5 by an error of R here, and its lock taken: other threads that called it would wait for ever.
  run_delayed(c(
    "b <- TENxMatrix(system.file('extdata', 'example-10x.h5', package = 'regatta'), 'matrix')",
    "s <- as_h5_matrix(b)",
    "stopifnot(inherits(s, 'h5_sparse'), identical(dim(s), dim(b)), is_sparse(DelayedArray(s)))",
    "a <- DelayedArray(s)",
    "stopifnot(identical(type(a), type(b)), identical(as.matrix(a)[9:3, ], as.matrix(b)[9:3, ]))",
    "same(as.matrix(a), as.matrix(b), 'values'); same(as.matrix(a[9:3, 5:6]), as.matrix(b[9:3, 5:6]), 'part')",
    "same(colSums2(a), colSums2(b), 'colSums2'); same(rowVars(a), rowVars(b), 'rowVars')",
    "few <- order(-colSums2(b))[1:20]; some <- order(-rowSums2(b))[1:15]",
    "compare(a, b, 60); compare(a[some, few], b[some, few], 60)",
    "same(colSums(a), colSums(b), 'colSums'); same(as.matrix(a * 2), as.matrix(b) * 2, 'delayed')",
    "same(h5_col_sums(m, threads = 2L), colSums(x), 'threads')",
    "h <- HDF5Array('one.h5', 'x')",
    "stopifnot(inherits(as_h5_matrix(h), 'h5_matrix'), identical(as_h5_matrix(h)[], x), identical(as_h5_matrix(t(h))[], t(x)))",
    "stopifnot(identical(as_h5_matrix(DelayedArray(m)), m))",
    "for (wrong in list(h + 1L, h[1:3, ], x)) {",
    "  stopifnot(inherits(try(as_h5_matrix(wrong), silent = TRUE), 'try-error'))",
    "}"
  ))
})
