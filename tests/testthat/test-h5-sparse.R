# Sparse matrices as 10x Genomics and AnnData store them, written here and real ones.
sparse_writer <- '
import sys
import h5py
import numpy as np

folder = sys.argv[1]
rng = np.random.default_rng(3)
features, cells = 70, 55
dense = np.where(rng.random((cells, features)) < 0.8, 0, rng.integers(1, 50, (cells, features)))
dense[7] = dense[20] = dense[54] = 0
dense[:, 3] = 0


def parts(x):
    pointers, indices, values = [0], [], []
    for line in x:
        at = np.flatnonzero(line)
        indices.extend(at)
        values.extend(line[at])
        pointers.append(len(indices))
    return np.array(values), np.array(indices), np.array(pointers)


def write(group, x, value="i4", index="i8", pointer="i8", **options):
    values, indices, pointers = parts(x)
    group.create_dataset("data", data=values.astype(value), **options)
    group.create_dataset("indices", data=indices.astype(index), **options)
    group.create_dataset("indptr", data=pointers.astype(pointer))


zipped = dict(chunks=(100,), compression="gzip", shuffle=True)
with h5py.File(folder + "/10x-v3.h5", "w") as f:
    write(f.create_group("matrix"), dense, **zipped)
    f["matrix/shape"] = np.array([features, cells], "i4")
    f["matrix/features/id"] = np.array(["f%d" % i for i in range(features)], "S8")
    f["matrix/barcodes"] = np.array(["c%d" % i for i in range(cells)], "S8")
with h5py.File(folder + "/10x-v2.h5", "w") as f:
    write(f.create_group("hg19"), dense, index="i4", pointer="u4")
    f["hg19/shape"] = np.array([features, cells])
    f["hg19/genes"] = np.array(["f%d" % i for i in range(features)], "S8")
    f["hg19/barcodes"] = np.array(["c%d" % i for i in range(cells)], "S8")
for kind, x in (("csr", dense), ("csc", dense.T)):
    with h5py.File(folder + "/%s.h5ad" % kind, "w") as f:
        group = f.create_group("X")
        group.attrs["encoding-type"] = kind + "_matrix"
        group.attrs["shape"] = np.array([cells, features])
        write(group, x + 0.25 * (x > 0), value="f4", index="i4", pointer="i4", **zipped)
        f["obs/_index"] = ["c%d" % i for i in range(cells)]
        f["var/_index"] = ["f%d" % i for i in range(features)]
for kind, x in (("csr", dense), ("csc", dense.T)):
    with h5py.File(folder + "/old-%s.h5ad" % kind, "w") as f:
        for name in ("X", "layers/counts"):
            group = f.create_group(name)
            group.attrs["h5sparse_format"] = kind
            group.attrs["h5sparse_shape"] = np.array([cells, features])
            write(group, x, value="f8", index="i4", pointer="i4", chunks=(64,), compression="lzf")
        f["obs"] = np.array([(b"c%d" % i, i) for i in range(cells)], [("index", "S3"), ("rank", "i4")])
        f["var"] = np.array([(b"f%d" % i,) for i in range(features)], [("index", "S3")])
# Values that are not finite, the missing number and integer of R among them.
lost = np.concatenate([np.array([0x7FF00000000007A2], "u8").view("f8"), [np.nan, np.inf, -np.inf]])
gaps = np.where(rng.random((9, 13)) < 0.7, 0, rng.integers(1, 5, (9, 13))).astype("f8")
for kind, some in (("missing", lost[:1]), ("nan", lost[1:2]), ("all", lost), ("integer", [-2.0**31])):
    x = np.where((gaps != 0) & (rng.random(gaps.shape) < 0.2), rng.choice(some, gaps.shape), gaps)
    for layout, y in (("csr", x), ("csc", x.T)):
        with h5py.File(folder + "/gaps-%s-%s.h5" % (kind, layout), "w") as f:
            group = f.create_group("X")
            group.attrs["encoding-type"] = layout + "_matrix"
            group.attrs["shape"] = np.array(x.shape)
            write(group, y, value="i4" if kind == "integer" else "f8", chunks=(7,))
            f["dense"] = x.astype("i4") if kind == "integer" else x
most = np.finfo("f8").max
near = np.zeros((9, 13))
near[2] = np.resize([most, most, -most, -most, 1.0], 13)
near[5, 1:] = 1e308
near[:, 7] = np.resize([1e16, 1.0, -1e16], 9)
near[8] = -near[2]
for layout, y in (("csr", near), ("csc", near.T)):
    with h5py.File(folder + "/near-%s.h5" % layout, "w") as f:
        group = f.create_group("X")
        group.attrs["encoding-type"] = layout + "_matrix"
        group.attrs["shape"] = np.array(near.shape)
        write(group, y, value="f8", chunks=(7,))
        f["dense"] = near
# Columns of 150,000 and 450,000 entries in falling order, worked on in several pieces; and the same with an
# index twice: in one piece, in two, and at the border of two, where they rise.
tall = 500000
with h5py.File(folder + "/tall.h5", "w") as f:
    down = np.arange(tall)[::-1]
    columns = [down[:150000], down[:450000], [5]]
    for name, at, rises in (("none", None, False), ("near", (10, 20), False), ("far", (10, 400000), False),
                            ("border", (131071, 131072), True), ("short", (0, 149999), False)):
        indices = np.concatenate([np.sort(x) if rises else x for x in columns])
        if at is not None:
            first = 0 if name in ("border", "short") else 150000
            indices[first + at[1]] = indices[first + at[0]]
        group = f.create_group(name)
        group["data"] = np.arange(len(indices)) % 7
        group.create_dataset("indices", data=indices.astype("i4"), chunks=(5000,))
        group["indptr"] = np.cumsum([0] + [len(x) for x in columns])
        group["shape"] = np.array([tall, len(columns)])
with h5py.File(folder + "/wrong.h5", "w") as f:
    for name in ("index", "pointers", "length", "twice", "shape"):
        group = f.create_group(name)
        write(group, dense)
        group["shape"] = np.array([features, cells])
    f["index/indices"][10] = features
    f["pointers/indptr"][3] = 2**40
    del f["length/data"]
    f["length/data"] = np.arange(5)
    f["twice/indices"][1] = f["twice/indices"][0]
    f["shape/shape"][1] = cells + 1
with h5py.File(folder + "/dense.h5", "w") as f:
    f["x"] = dense
'
sparse_files <- function(env = parent.frame()) {
  python <- h5_python()
  if (!nzchar(python)) return(NULL)
  folder <- withr::local_tempdir("h5-", .local_envir = env)
  script <- withr::local_tempfile(lines = sparse_writer)
  if (system2(python, shQuote(c(script, folder))) != 0L) stop("the files could not be written")
  folder
}
files <- sparse_files()
# It sets an option of R when it is loaded.
requireNamespace("Matrix", quietly = TRUE)
detritus <- detritus_snapshot()

sparse_file <- function(name) {
  skip_without_h5()
  if (is.null(files)) skip("no Python with h5py")
  file.path(files, name)
}

all_stats <- c("sum", "mean", "var", "sd", "min", "max", "nnz", "median", "count")

dense_stats <- function(x) {
  each <- function(f) unname(apply(x + 0, 1L, f))
  data.frame(
    sum = each(sum), mean = each(mean), var = each(stats::var), sd = each(stats::sd), min = each(min),
    max = each(max), nnz = each(function(v) sum(v != 0)) + 0, median = each(stats::median) + 0,
    count = each(length) + 0
  )
}

test_that("statistics of every format are those of the dense matrix", {
  path <- sparse_file("dense.h5")
  counts <- h5_matrix(path, "x")[]
  names <- list(paste0("f", 0:69), paste0("c", 0:54))
  for (name in c("10x-v3.h5", "10x-v2.h5", "csr.h5ad", "csc.h5ad", "old-csr.h5ad", "old-csc.h5ad")) {
    x <- counts
    if (name %in% c("csr.h5ad", "csc.h5ad")) x <- x + 0.25 * (x > 0)
    m <- h5_sparse(sparse_file(name))
    expect_identical(dim(m), c(70L, 55L), label = name)
    expect_identical(dimnames(m), names, label = name)
    both <- h5_stats(m, 1:2, all_stats)
    for (k in 1:2) {
      expect_equal(both[[k]], dense_stats(if (k == 1L) x else t(x)), tolerance = 1e-12,
        ignore_attr = TRUE, label = paste(name, k))
      expect_identical(h5_stats(m, k, all_stats, threads = 1L), both[[k]], label = paste(name, k))
      expect_identical(h5_stats(t(m), 3L - k, all_stats), both[[k]], label = paste(name, k))
    }
    expect_equal(h5_col_sums(m), stats::setNames(colSums(x), colnames(m)), tolerance = 1e-14)
    rows <- c(5, 70, 4, 11)
    columns <- c(30:20, 55)
    expect_equal(unname(h5_row_vars(m, rows = rows, columns = columns)),
      apply(x[rows, columns], 1L, stats::var), tolerance = 1e-12)
    expect_equal(unname(h5_col_maxs(m, rows = rows, columns = columns)), apply(x[rows, columns], 2L, max) + 0)
    groups <- factor(rep_len(c("a", "b", NA, "c"), 55))
    expect_equal(unname(h5_row_sums(m, groups = groups)),
      unname(sapply(levels(groups), function(g) rowSums(x[, groups %in% g]))), tolerance = 1e-14)
    expect_equal(unname(h5_col_means(m, groups = rep_len(1:2, 70))),
      unname(sapply(1:2, function(g) colMeans(x[rep_len(1:2, 70) == g, ]))), tolerance = 1e-12)
  }
})

test_that("statistics of some columns read only chunks that have some of them", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile(fileext = ".h5")
  h5_by_python(path, c(
    "n, g = 400000, f.create_group('m')",
    "a = dict(chunks=(50000,), compression='gzip')",
    "g.create_dataset('data', data=np.tile(np.arange(n, dtype='i4') % 7 + 1, 3), **a)",
    "g.create_dataset('indices', data=np.tile(np.arange(n, dtype='i4'), 3), **a)",
    "g['indptr'], g['shape'] = np.arange(4) * n, np.array([n, 3])",
    "g['data'].id.write_direct_chunk((1150000,), b'nothing')"
  ))
  m <- h5_sparse(path, "m")
  x <- (seq_len(4e5) - 1) %% 7 + 1
  expect_identical(unname(h5_col_sums(m, columns = 1)), sum(x))
  expect_identical(unname(h5_col_sums(m, columns = c(2, 1))), rep(sum(x), 2))
  expect_identical(unname(h5_row_sums(m, columns = 1:2)), 2 * x)
  expect_identical(unname(h5_row_sums(m, groups = c("a", NA, NA))[, "a"]), x)
  expect_identical(unname(h5_col_medians(m, columns = 2)), stats::median(x))
  expect_identical(unname(h5_row_medians(m, columns = 1)), x)
  for (columns in list(NULL, 3)) {
    expect_error(h5_col_sums(m, columns = columns), "deflate", class = "regatta_error_h5")
    expect_error(h5_row_medians(m, columns = columns), "deflate", class = "regatta_error_h5")
  }
})

test_that("parts, products and blocks are those of the dense matrix", {
  path <- sparse_file("dense.h5")
  skip_if_not_installed("Matrix")
  counts <- h5_matrix(path, "x")[]
  withr::local_preserve_seed()
  for (name in c("10x-v3.h5", "10x-v2.h5", "csr.h5ad", "csc.h5ad", "old-csr.h5ad", "old-csc.h5ad")) {
    x <- counts + 0
    if (name %in% c("csr.h5ad", "csc.h5ad")) x <- x + 0.25 * (x > 0)
    m <- h5_sparse(sparse_file(name))
    dimnames(x) <- dimnames(m)
    expect_s4_class(m[], "dgCMatrix")
    expect_identical(as.matrix(m), x, label = name)
    rows <- c(70, 3, 3, 12:18)
    columns <- c(55, 1:9, 2)
    expect_identical(as.matrix(m[rows, columns]), x[rows, columns], label = name)
    expect_identical(as.matrix(m[-1, ]), x[-1, ], label = name)
    expect_identical(as.matrix(m[, c(TRUE, FALSE)]), x[, c(TRUE, FALSE)], label = name)
    expect_identical(as.matrix(t(m)[columns, rows]), t(x)[columns, rows], label = name)
    expect_identical(m[5, ], x[5, ], label = name)
    expect_identical(as.matrix(m[integer(), 2:3]), x[integer(), 2:3], label = name)
    y <- matrix(cos(1:110), 55)
    z <- matrix(sin(1:140), 70)
    for (memory in c(2000, 2^26)) {
      expect_equal(h5_product(m, y, memory), x %*% y, tolerance = 1e-13, ignore_attr = TRUE, label = name)
      expect_equal(h5_crossprod(m, z, memory), crossprod(x, z), tolerance = 1e-13, ignore_attr = TRUE, label = name)
      expect_equal(h5_crossprod(m, memory = memory), crossprod(x), tolerance = 1e-13, ignore_attr = TRUE, label = name)
      expect_equal(h5_crossprod(t(m), memory = memory), tcrossprod(x), tolerance = 1e-13, ignore_attr = TRUE, label = name)
    }
  }
  sums <- h5_apply(m, 2, Matrix::colSums, memory = 2000, .control = par_control(workers = 2L, seed = FALSE))
  expect_gt(length(sums), 3L)
  expect_identical(unlist(sums, use.names = FALSE), colSums(counts))
  wrong <- sparse_file("wrong.h5")
  says <- function(name) conditionMessage(h5_error(h5_sparse(wrong, name)[]))
  expect_match(says("index"), "entry 11 of `index/indices` .* outside of the 70")
  expect_match(says("twice"), "same index twice")
  expect_match(says("length"), "has 5 entries")
})

test_that("zeros that are not stored meet what is not finite, as in a dense matrix", {
  sparse_file("dense.h5")
  skip_if_not_installed("Matrix")
  withr::local_preserve_seed()
  set.seed(5)
  # R does not say which of NA and NaN a sum of both is, nor one of NA and of what makes NaN.
  same <- function(found, right, mixed, label) {
    found <- unname(found)
    right <- unname(right) + 0
    expect_equal(if (mixed) replace(found, is.na(found), NA) else found, if (mixed) replace(right, is.na(right), NA) else right,
      tolerance = 1e-13, label = label)
    if (!mixed) expect_identical(is.nan(found), is.nan(right), label = label)
  }
  factors <- function(size, kind) {
    some <- switch(kind, missing = , integer = NA_real_, nan = c(NaN, Inf, -Inf), all = c(NA, NaN, Inf, -Inf))
    y <- matrix(stats::rnorm(3 * size), size)
    y[sample(length(y), 4L)] <- 0
    list(finite = y, lost = replace(y, sample(length(y), 3L), sample(rep(some, 3L), 3L)))
  }
  for (name in list.files(files, "^gaps-")) {
    kind <- strsplit(name, "-")[[1L]][[2L]]
    sparse <- h5_sparse(file.path(files, name))
    dense <- h5_matrix(file.path(files, name), "dense")
    expect_true(anyNA(dense[]) && !all(is.na(dense[])))
    expect_identical(is.nan(as.matrix(sparse)), is.nan(dense[]), label = name)
    for (turned in c(FALSE, TRUE)) {
      m <- if (turned) t(sparse) else sparse
      x <- if (turned) t(dense) else dense
      mixed <- kind == "all"
      label <- paste(name, turned)
      expect_identical(as.matrix(m), x[] + 0, label = label)
      for (na.rm in c(FALSE, TRUE)) {
        expect_equal(h5_stats(m, 1:2, all_stats, na.rm), h5_stats(x, 1:2, all_stats, na.rm), tolerance = 1e-13, label = label)
      }
      memory <- if (turned) 2^26 else 100
      for (y in factors(ncol(m), kind)) same(h5_product(m, y, memory), x[] %*% y, mixed, label)
      for (y in factors(nrow(m), kind)) same(h5_crossprod(m, y, memory), crossprod(x[], y), mixed, label)
      same(h5_crossprod(m, memory = memory), crossprod(x[]), mixed, label)
      # An element of `y` that is missing reaches every row.
      expect_true(all(is.na(h5_product(m, replace(numeric(ncol(m)), 2L, NA)))))
    }
  }
  expect_error(h5_product(sparse, structure(numeric(9), class = "integer64")), "integer64.*as.double")
})

test_that("sums near the range of doubles are those of R", {
  for (name in c("near-csr.h5", "near-csc.h5")) {
    m <- h5_sparse(sparse_file(name))
    x <- h5_matrix(sparse_file(name), "dense")[]
    both <- h5_stats(m, 1:2, c("sum", "mean"))
    expect_equal(both$rows, data.frame(sum = rowSums(x), mean = rowMeans(x)), tolerance = 1e-15, label = name)
    expect_equal(both$columns, data.frame(sum = colSums(x), mean = colMeans(x)), tolerance = 1e-15, label = name)
    rows <- c(1, 3, 8, 8)
    expect_equal(h5_col_means(m, rows = rows), colMeans(x[rows, ]), tolerance = 1e-15, label = name)
  }
})

test_that("a sparse matrix shows what it is, and goes to workers", {
  m <- h5_sparse(sparse_file("10x-v3.h5"))
  withr::local_preserve_seed()
  expect_output(print(m), "<h5_sparse> 70 x 55 of int32, [0-9]+ entries")
  expect_match(format(m)[[2L]], "matrix \\(10x\\)")
  expect_identical(
    par_lapply(1:2, function(i) h5_col_sums(m), .control = par_control(workers = 2L, seed = FALSE)),
    list(h5_col_sums(m), h5_col_sums(m))
  )
})

test_that("columns behind more than 2^31 entries are read, in memory for themselves", {
  skip_without_h5()
  skip_without_h5py()
  skip_if_not_installed("processx")
  withr::local_preserve_seed()
  path <- withr::local_tempfile(fileext = ".h5")
  # 550 columns of 4,000,000 entries each, of which only the last one is there.
  h5_by_python(path, c(
    "each, many = 4000000, 550", "g = f.create_group('matrix')",
    "packed = dict(shape=(each * many,), chunks=(each // 4,), compression='gzip', compression_opts=1, shuffle=True)",
    "data = g.create_dataset('data', dtype='u1', fillvalue=2, **packed)",
    "indices = g.create_dataset('indices', dtype='i4', **packed)",
    "indices[each * (many - 1):] = np.arange(each)", "data[each * many - 2:] = [7, 9]",
    "g['indptr'] = np.arange(many + 1, dtype='i8') * each", "g['shape'] = np.array([each, many], 'i4')"
  ))
  found <- h5_measured(path, c(
    "m <- h5_sparse(path, dimnames = FALSE)",
    "invisible(dim(m))",
    "before <- peak()",
    "x <- m[, 550]",
    "cat(before, peak(), dim(m), length(x), sum(x), x[c(1, 4e6 - 1, 4e6)], '\n')"
  ))
  expect_identical(found[3:9], c(4e6, 550, 4e6, 2 * (4e6 - 2) + 16, 2, 7, 9))
  # Two vectors of the result's size and what is read in pieces: not 2.2e9 entries of 5 bytes.
  expect_memory_below(found[[2]] - found[[1]], 400)
  m <- h5_sparse(path, dimnames = FALSE)
  expect_identical(regatta:::h5_fields(m)$entries, 2.2e9)
  # What is in front of it is no matrix: the same index four million times.
  expect_match(conditionMessage(h5_error(m[, 549])), "the same index twice")
})

test_that("statistics of more than 2^31 entries are right, in bounded memory", {
  skip_without_h5()
  skip_without_h5py()
  skip_if_not_installed("processx")
  skip_if(!nzchar(Sys.getenv("REGATTA_LONG")), "it takes a quarter of a minute, where REGATTA_LONG is set")
  withr::local_preserve_seed()
  path <- withr::local_tempfile(fileext = ".h5")
  # 32,800 full columns of 65,536 entries: the positions of all are the same chunk, and of the values two are not 2.
  h5_by_python(path, c(
    "import zlib", "each, many, lines = 65536, 32800, 16", "g = f.create_group('matrix')",
    "packed = dict(shape=(each * many,), chunks=(each * lines,), compression='gzip', shuffle=True)",
    "data = g.create_dataset('data', dtype='u1', fillvalue=2, **packed)",
    "indices = g.create_dataset('indices', dtype='<u2', **packed)",
    "one = zlib.compress(np.tile(np.arange(each, dtype='<u2'), lines).view('u1').reshape(-1, 2).T.tobytes(), 9)",
    "for at in range(0, each * many, each * lines): indices.id.write_direct_chunk((at,), one)",
    "data[each * many - 2:] = [7, 9]",
    "g['indptr'] = np.arange(many + 1, dtype='i8') * each", "g['shape'] = np.array([each, many], 'i4')"
  ))
  found <- h5_measured(path, c(
    "m <- h5_sparse(path, dimnames = FALSE)",
    "invisible(dim(m))",
    "before <- peak()",
    "both <- h5_stats(m, 1:2, c('sum', 'max', 'nnz'), threads = 2L)",
    "cat(before, peak(), dim(m), unlist(both), '\n')"
  ))
  expect_identical(found[3:4], c(65536, 32800))
  rows <- list(sum = c(rep(65600, 65534), 65605, 65607), max = c(rep(2, 65534), 7, 9), nnz = rep(32800, 65536))
  columns <- list(sum = c(rep(131072, 32799), 131084), max = c(rep(2, 32799), 9), nnz = rep(65536, 32800))
  expect_identical(found[-(1:4)], unlist(c(rows, columns), use.names = FALSE))
  expect_memory_below(found[[2L]] - found[[1L]], 128)
})

test_that("vectors that do not fit together are errors", {
  path <- sparse_file("wrong.h5")
  says <- function(name) conditionMessage(h5_error(h5_col_sums(h5_sparse(path, name))))
  expect_match(says("index"), "entry 11 of `index/indices` .* outside of the 70")
  expect_match(says("pointers"), "`pointers/indptr` .* does not begin at 0, rise, and end at")
  expect_match(says("length"), "has 5 entries, `length/indices` has")
  expect_match(says("twice"), "same index twice")
  expect_match(says("shape"), "is for 55 rows or columns, the shape says 56")
  expect_match(conditionMessage(h5_error(h5_sparse(path))), "several sparse matrices.*Give `name`")
  expect_match(conditionMessage(h5_error(h5_sparse(sparse_file("dense.h5")))), "no sparse matrix")
  expect_match(conditionMessage(h5_error(h5_sparse(path, "none"))), "no sparse matrix as")
})

test_that("an index that is twice in a column is an error wherever it is, whoever reads it", {
  path <- sparse_file("tall.h5")
  fine <- h5_sparse(path, "none")
  values <- (seq_len(600001) - 1) %% 7
  expect_identical(h5_col_sums(fine), c(sum(values[1:150000]), sum(values[150001:600000]), values[[600001]]))
  for (name in c("near", "far", "border", "short")) {
    m <- h5_sparse(path, name)
    for (read in list(h5_col_sums, h5_row_maxs, function(m) h5_col_nnz(m, rows = 1:2), summary, as.matrix,
      function(m) h5_product(m, diag(3)), anyNA)) {
      error <- h5_error(read(m))
      expect_match(conditionMessage(error), "`.*/indices` in .* has the same index twice in a row or column", label = name)
    }
  }
})

test_that("real files of both layouts of 10x Genomics are read", {
  skip_without_h5()
  folder <- Sys.getenv("REGATTA_TEST_DATA")
  skip_if(!nzchar(folder), "REGATTA_TEST_DATA names no folder with real files")
  path <- file.path(folder, "10x-v3-filtered_feature_bc_matrix.h5")
  skip_if(!file.exists(path), paste("there is no", basename(path)))
  m <- h5_sparse(path)
  expect_identical(ncol(m), 1107L)
  values <- regatta:::h5_values(path, "matrix/data")
  pointers <- regatta:::h5_values(path, "matrix/indptr")
  cell <- rep(seq_len(1107), diff(pointers))
  expect_identical(unname(h5_col_sums(m)), as.numeric(tapply(values, factor(cell, 1:1107), sum, default = 0)))
  expect_identical(sum(h5_row_nnz(m)), as.numeric(length(values)))
  two <- h5_sparse(file.path(folder, "10x-v2-filtered_gene_bc_matrices.h5"))
  expect_identical(sum(h5_row_sums(two)), sum(h5_col_sums(two)))
  expect_false(is.null(dimnames(two)[[1L]]))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
