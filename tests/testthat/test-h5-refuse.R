# Messages as a user meets them. The files go when this file is over.
files <- local_h5_files()
detritus <- detritus_snapshot()

says <- function(code) {
  text <- conditionMessage(tryCatch(code, error = identity))
  text <- gsub(files, "F", gsub(normalizePath(files), "F", text, fixed = TRUE), fixed = TRUE)
  gsub("file[0-9a-f]+", "TEMP", text)
}

test_that("arithmetic and assignment say what to use", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  for (code in expression(m + 1, 1 - m, -m, m > 2, log(m), sum(m), range(m), mean(m), m[1, 1] <- 2L)) {
    expect_error(eval(code), class = "regatta_error_h5")
  }
  expect_identical(says(m + 1), paste0(
    "`+` does not compute with a matrix in a file.\nRead what you need, `m[i, j]`, take `h5_stats()`, `h5_apply()` or ",
    "`h5_product()`, or `DelayedArray(m)` of Bioconductor."
  ))
  expect_match(says(rbind(m, 1)), "not put together.\nRead them", fixed = TRUE)
  expect_error(cbind(a = 1:17, m), class = "regatta_error_h5")
  expect_match(says(m[1, 1] <- 2), "is not written to.\n`h5_write()`", fixed = TRUE)
})

test_that("nothing of an object is taken for elements of its matrix", {
  skip_without_h5()
  path <- withr::local_tempfile(fileext = ".h5")
  control <- par_control(workers = 1L, seed = FALSE)
  m <- h5_write(matrix(c(1, NA, 3, 3, 5, 6), 2), path, "x", .control = control)
  full <- h5_write(matrix(c(1, 2, 3, 3, 5, 6), 2), path, "y", .control = control)
  expect_identical(c(anyNA(m), anyNA(t(m)), anyNA(full)), c(TRUE, TRUE, FALSE))
  expect_false(anyNA(h5_write(matrix(0, 0, 3), path, "z", .control = control)))
  refused <- expression(
    is.na(m), na.omit(m), na.exclude(m), unique(m), duplicated(m), unlist(m), c(m, m), as.list(m),
    as.vector(m), as.numeric(m), as.double(m), as.integer(m), as.logical(m), as.character(m), m[[1]], m[[]], m$path, lapply(m, sum),
    sapply(m, sum), vapply(m, sum, 1), mapply(sum, m), Reduce(`+`, m), par_lapply(m, sum), par_sapply(m, sum),
    matrix(m, 1), array(m, 6), factor(m), union(m, 1)
  )
  for (code in refused) expect_error(eval(code), class = "regatta_error_h5", label = deparse(code))
  # These ask no class; what is behind the object is no vector.
  bare <- expression(
    for (x in m) x, m %in% 3, 3 %in% m, match(3, m), par_mapply(sum, m), sort(m), order(m), rev(m),
    stats::var(m), cat(m), stats::median(m)
  )
  for (code in bare) expect_error(eval(code), label = deparse(code))
  expect_null(names(m))
  expect_identical(says(lapply(m, sum)), paste0("a matrix in a file is not a list.\n",
    "Read what you need, `m[i, j]`, or let `h5_apply()` call a function with blocks of rows or columns."))
  expect_match(says(unique(m)), "^`unique` does not compute with a matrix in a file.\n")
})

test_that("an object stays what it was when another is made of it, and where it is saved or sent", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  values <- m[]
  turned <- t(m)
  dimnames(turned) <- list(NULL, paste0("r", 1:17))
  expect_identical(dim(m), c(17L, 23L))
  expect_null(dimnames(m))
  saved <- withr::local_tempfile()
  saveRDS(list(m, turned), saved)
  again <- readRDS(saved)
  expect_identical(again[[1]][], values)
  expect_identical(dimnames(again[[2]]), dimnames(turned))
  expect_identical(format(again[[2]]), format(turned))
  f <- function(i) list(m, m[i, 2])
  cluster <- local_pool(1L)
  two <- par_control(workers = 2L, seed = FALSE)
  for (on in list(NULL, cluster)) {
    found <- par_lapply(3:4, f, .on = on, .control = two)
    expect_identical(found[[2]][[1]][], values)
    expect_identical(found[[2]][[2]], values[4, 2])
    found <- par_lapply(list(m, turned), function(x) x[1, ], .on = on, .control = two)
    expect_identical(found, list(m[1, ], turned[1, ]))
  }
  # The same file, opened anew, is the same argument of a checkpoint.
  folder <- withr::local_tempdir()
  calls <- withr::local_tempfile()
  sums <- function(m) {
    par_lapply(1:2, function(i, m) {
      cat("x", file = calls, append = TRUE)
      sum(m[i, ])
    }, m, .control = par_control(workers = 1L, seed = FALSE, checkpoint = folder))
  }
  first <- sums(m)
  again <- suppressMessages(sums(h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")))
  expect_identical(again, first)
  expect_identical(file.size(calls), 2)
})

test_that("names are set, and those of another size refused", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  named <- m
  dimnames(named) <- list(paste0("r", 1:17), NULL)
  expect_identical(named["r2", ], m[2, ])
  turned <- t(m)
  dimnames(turned) <- list(NULL, paste0("r", 1:17))
  expect_identical(turned[, "r2"], m[2, ])
  dimnames(named) <- NULL
  expect_null(dimnames(named))
  expect_error(dimnames(named) <- list(NULL, 1:3), "`value` must be a list of names for 17 rows and 23 columns")
  expect_error(dimnames(named) <- TRUE, "list of names")
})

test_that("what cannot be opened or written says why", {
  skip_without_h5()
  path <- h5_file(files, "types.h5")
  expect_identical(says(h5_matrix(file.path(files, "none.h5"), "x")), "cannot open F/none.h5: No such file or directory")
  expect_identical(says(h5_matrix(files, "x")), "cannot open F: it is a folder")
  text <- withr::local_tempfile(lines = "no HDF5")
  expect_match(says(h5_matrix(text, "x")), "it is no HDF5 file")
  expect_match(says(h5_matrix(path, "fletcher/none")), "there is no `fletcher/none` in F/types.h5\n`fletcher` has `", fixed = TRUE)
  expect_match(says(h5_write(matrix("a"), text, "x")), "`x` must be .*, not a 1 x 1 matrix of type character")
  expect_match(says(h5_write(matrix(1i), text, "x")), "`x` must be .*, not a 1 x 1 matrix of type complex")
  expect_match(says(h5_write(data.frame(a = 1), text, "x")), "`x` must be .*, not an object of class \"data.frame\".*`as.matrix")
  one <- par_control(workers = 1L, seed = FALSE)
  fill <- function(f) says(h5_fill(withr::local_tempfile(), "x", c(2, 2), f, .control = one))
  frame <- fill(function(rows, columns) data.frame(a = 1:2, b = 3:4))
  expect_match(frame, "`f` must return a matrix of numbers, 2 x 2, not an object of class \"data.frame\"")
  expect_match(fill(function(rows, columns) matrix("a", 2, 2)), "2 x 2, not a 2 x 2 matrix of type character")
  expect_match(fill(function(rows, columns) array(1, c(2, 2, 3))), "2 x 2, not a 2 x 2 x 3 array of type double")
  # The elements of other classes say what they are when they are read.
  encode <- regatta:::h5_encoder(function(rows, columns) "a", list(), "h5_write")
  expect_match(says(encode(list(rows = c(1, 1), columns = c(1, 1)))),
    "`x[rows, columns]` must be a matrix of numbers, 1 x 1, not \"a\"", fixed = TRUE)
  expect_match(says(h5_write(matrix(1), "/nonexistent/a.h5", "x")), "must be a file in a folder that exists")
  short <- withr::local_tempfile()
  writeBin(utils::head(readBin(path, "raw", 1e6), 5000), short)
  expect_match(says(h5_matrix(short, "x")), "truncated file.*copy it anew")
})

test_that("nothing but a file is written to or read", {
  skip_without_h5()
  folder <- withr::local_tempdir()
  one <- par_control(workers = 1L, seed = FALSE)
  text <- file.path(folder, "text")
  writeLines("no HDF5", text)
  pipe <- file.path(folder, "pipe")
  expect_identical(system2("mkfifo", shQuote(pipe)), 0L)
  for (path in c("/dev/null", "/dev/full", pipe)) {
    expect_match(says(h5_write(matrix(1), path, "x", .control = one)), "cannot write to .*: it is a device, .*new name")
    expect_match(says(h5_matrix(path, "x")), "cannot open .*: it is a device, a pipe")
  }
  expect_match(says(h5_write(matrix(1), folder, "x", .control = one)), "cannot write to .*: it is a folder")
  expect_match(says(h5_write(matrix(1), text, "x", .control = one)), "cannot write to .*: it is no HDF5 file.*new name")
  expect_identical(readLines(text), "no HDF5")
})

test_that("a full disk is an error with numbers, and nothing is lost", {
  skip_without_h5()
  skip_unless_linux()
  got <- fault_run(function() {
    write <- function(size, file, name) {
      h5_write(matrix(1, size, size), file.path("/mnt", file), name, level = 0L,
        .control = par_control(workers = 1L, seed = FALSE))
    }
    m <- write(100, "a.h5", "small")
    texts <- vapply(c("a.h5", "b.h5"), function(file) conditionMessage(tryCatch(write(1000, file, "large"), error = identity)), "")
    again <- write(10, "a.h5", "again")
    gc()
    list(texts = texts, files = list.files("/mnt", all.files = TRUE, no.. = TRUE), names = h5_ls("/mnt/a.h5")$name,
      values = list(m[1:2, 100], again[10, 10]))
  }, wrap = small_disk("400k", "/mnt"))$value
  expect_match(got$texts, "cannot write [0-9]+ bytes to /mnt/[ab].h5: [0-9]+ are free on its disk\\nMake room")
  expect_identical(got$files, "a.h5")
  expect_setequal(got$names, c("small", "again"))
  expect_identical(got$values, list(c(1, 1), 1))
})

test_that("what libhdf5 says comes with file, name and advice", {
  skip_without_h5()
  folder <- withr::local_tempdir()
  one <- par_control(workers = 1L, seed = FALSE)
  path <- file.path(folder, "a.h5")
  h5_write(matrix(1), path, "a/b", .control = one)
  expect_match(says(h5_write(matrix(1), path, "a/b/c/d", .control = one)),
    "cannot create `a/b/c/d` in .*a.h5: `a/b` is no group\nChoose another name")
  expect_match(says(h5_write(matrix(1), path, "a/b", .control = one)), "it exists\nChoose another name")
  skip_without_h5py()
  # The header of the dataset is gone.
  h5_by_python(path, c(
    "at = h5py.h5o.get_info(f['a/b'].id).addr", "f.close()",
    "f = open(sys.argv[1], 'r+b')", "f.seek(at)", "f.write(b'x' * 40)"
  ), mode = "r")
  for (read in expression(h5_matrix(path, "a/b"), h5_write(matrix(1), path, "a/b", .control = one))) {
    expect_match(says(eval(read)), "`a/b` in .*a.h5.*\n(These are libhdf5's words.*copy it anew|Choose another name)")
  }
})

test_that("mistakes are errors of the call that the user has made", {
  skip_without_h5()
  m <- h5_matrix(h5_file(files, "types.h5"), "fletcher/le-i4")
  call_of <- function(code) as.character(conditionCall(tryCatch(code, error = identity))[[1L]])
  expect_identical(call_of(h5_col_sums("F")), "h5_col_sums")
  expect_identical(call_of(h5_row_vars(m, columns = 99)), "h5_row_vars")
  expect_identical(call_of(h5_stats(m, 3)), "h5_stats")
  expect_identical(call_of(h5_stats(m, 1, rows = 99)), "h5_stats")
  expect_identical(call_of(h5_apply(m, sum)), "h5_apply")
  expect_identical(call_of(h5_chunks(m, 3)), "h5_chunks")
  expect_identical(call_of(h5_product(1, m)), "h5_product")
  expect_identical(call_of(h5_crossprod(m, m)), "h5_crossprod")
  expect_identical(call_of(h5_write(matrix(1))), "h5_write")
  expect_error(h5_col_sums(m, margin = 1), "\"margin\" matched by multiple")
})

test_that("a path that no file can have is refused in words", {
  skip_without_h5()
  expect_error(h5_ls(""), "must be the name of a file", class = "regatta_error_argument")
  expect_error(h5_ls(strrep("x", 5000)), "at most 4,000 bytes", class = "regatta_error_argument")
  skip_if(!l10n_info()[["UTF-8"]], "a locale without UTF-8")
  expect_error(h5_ls("b\xff\xe9.h5"), "are text in this session's encoding", class = "regatta_error_argument")
})

test_that("elements that are said to be larger than their chunk cost no time", {
  skip_without_h5()
  path <- withr::local_tempfile()
  h5_write(matrix(as.double(1:400), 20), path, "x", chunk = c(1, 1), .control = two_workers(workers = 1L))
  bytes <- readBin(path, "raw", 1e6)
  at <- grepRaw("shuffle", bytes, fixed = TRUE)
  skip_if(!identical(bytes[at + 8:11], as.raw(c(8, 0, 0, 0))), "this libhdf5 writes filters in another form")
  bytes[at + 8:11] <- writeBin(400000000L, raw())
  writeBin(bytes, path)
  # Each chunk took a second.
  seconds <- sum(system.time(h5_matrix(path, "x")[, ])[1:2])
  expect_lt(seconds, 60)
})

test_that("a tree of any depth is listed in time that grows with it", {
  skip_without_h5()
  skip_without_h5py()
  path <- withr::local_tempfile()
  h5_by_python(path, c("g = f", "for i in range(2500): g = g.create_group('g')", "g['x'] = [[1]]"))
  seconds <- sum(system.time(found <- h5_ls(path))[1:2])
  expect_identical(nrow(found), 2501L)
  expect_identical(found$kind[[2501L]], "dataset")
  expect_lt(seconds, 5)
})

test_that("a file without permission says so", {
  skip_without_h5()
  skip_if(detritus_uid() == 0, "root may read everything")
  path <- withr::local_tempfile()
  file.copy(h5_file(files, "types.h5"), path)
  Sys.chmod(path, "000")
  expect_match(says(h5_matrix(path, "x")), "Permission denied")
})

test_that("nothing is left behind", {
  end_servers()
  expect_no_detritus(detritus)
})
