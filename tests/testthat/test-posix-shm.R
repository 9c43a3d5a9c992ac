set.seed(29)
detritus <- detritus_snapshot()

counter <- new.env()
counter$n <- 0L
new_name <- function() {
  counter$n <- counter$n + 1L
  sprintf("/rg_test_%d_%d", Sys.getpid(), counter$n)
}

objects_left <- function() {
  list.files("/dev/shm", pattern = sprintf("^rg_test_%d_", Sys.getpid()))
}

vectors <- list(
  numeric(), integer(), raw(), logical(), complex(), 1, 1L, as.raw(1), NA, 1i, c(1.5, NA, Inf),
  c(1L, NA), 1:10, as.raw(0:255), c(TRUE, NA), complex(real = 1:3, imaginary = 3:1),
  stats::setNames(1:3, letters[1:3]), matrix(1:6 + 0, 2), factor(c("u", "v", "u")),
  as.Date("2020-02-03") + 0:2, structure(1:3, class = "mine", extra = list("a")), numeric(3e5)
)

test_that("vectors come back with their attributes, as copies or as they are", {
  for (copy in c(TRUE, FALSE)) {
    for (x in vectors) {
      obj <- copy2shm(x, new_name(), copy = copy)
      expect_s3_class(obj, "shm_obj", exact = TRUE)
      expect_named(obj, c("name", "type", "length", "size", "attributes", "copy"))
      expect_identical(obj$copy, copy)
      expect_identical(allocate_from_shm(obj), x)
    }
  }
  expect_identical(objects_left(), character())
})

test_that("an object has the size of the data and can be read by its owner alone", {
  skip_unless_linux()
  mask <- Sys.umask(0)
  withr::defer(Sys.umask(mask))
  obj <- copy2shm(1:10 + 0, new_name())
  info <- file.info(file.path("/dev/shm", obj$name))
  expect_identical(info$size, 80)
  expect_identical(format(info$mode), "600")
  expect_identical(obj[c("type", "length", "size")], list(type = 14L, length = 10, size = 80))
  expect_identical(allocate_from_shm(obj), 1:10 + 0)
})

test_that("an object can be read once", {
  obj <- copy2shm(1:10, new_name())
  allocate_from_shm(obj)
  error <- expect_error(allocate_from_shm(obj), class = "regatta_error_posix")
  expect_identical(error$operation, "shm_open")
  expect_match(conditionMessage(error), "read once")
})

test_that("a name that is taken is an error, unless it may be overwritten", {
  name <- new_name()
  first <- copy2shm(c(1, 2, 3), name)
  error <- expect_error(copy2shm(c(4, 5), name), class = "regatta_error_posix")
  expect_match(conditionMessage(error), "16 bytes.*overwrite = TRUE")
  second <- copy2shm(c(4, 5), name, overwrite = TRUE)
  expect_identical(allocate_from_shm(second), c(4, 5))
  expect_identical(objects_left(), character())
})

test_that("one who has the old object mapped keeps it when it is overwritten", {
  name <- new_name()
  old <- allocate_from_shm(copy2shm(rep(1, 1e5), name), copy = FALSE)
  copy2shm(rep(2, 10), name)
  again <- copy2shm(rep(3, 10), name, overwrite = TRUE)
  expect_identical(old, rep(1, 1e5))
  expect_identical(allocate_from_shm(again), rep(3, 10))
})

test_that("no room is an error with numbers, and leaves nothing", {
  skip_unless_linux()
  got <- fault_run(function() {
    small <- copy2shm(numeric(1e5), "/small")
    error <- tryCatch(copy2shm(numeric(1e6), "/large"), error = identity)
    list(
      class = class(error), text = conditionMessage(error), operation = error$operation,
      left = list.files("/dev/shm"), value = allocate_from_shm(small)
    )
  }, wrap = small_disk("4m", "/dev/shm"))$value
  expect_identical(got$class[[1L]], "regatta_error_posix")
  expect_identical(got$operation, "reserve")
  expect_match(got$text, "cannot put 8 MB into .*\"/large\", where 3\\.4 MB are available")
  expect_identical(got$left, "small")
  expect_identical(got$value, numeric(1e5))
})

test_that("a view is written privately, in this process and in others", {
  for (copy in c(TRUE, FALSE)) {
    x <- allocate_from_shm(copy2shm(1:1000, new_name()), copy = copy)
    y <- x
    y[[1L]] <- 99L
    expect_identical(x, 1:1000)
    expect_identical(y[1:2], c(99L, 2L))
    par_lapply(1:2, function(i) x[[i]] <<- 5L, .control = two_workers())
    expect_identical(x, 1:1000)
  }
})

test_that("a view is an ordinary vector to the rest of R", {
  x <- allocate_from_shm(copy2shm(c(3, 1, 2), new_name()), copy = FALSE)
  expect_identical(sort(x), c(1, 2, 3))
  expect_identical(sum(x), 6)
  # The data and no handle: nobody else could find the object.
  expect_identical(serialize(x, NULL), serialize(c(3, 1, 2), NULL))
  expect_output(.Internal(inspect(x)), "POSIX shared memory: 3 elements")
  path <- withr::local_tempfile()
  saveRDS(x, path)
  expect_identical(readRDS(path), c(3, 1, 2))
  got <- par_lapply(1:2, function(i) x, .control = two_workers(shm_min = 0))
  expect_identical(got, list(x, x))
})

test_that("an object made by another process is found by its description", {
  name <- new_name()
  obj <- par_lapply(1, function(i) copy2shm(c(7, 8), name), .control = two_workers())[[1L]]
  expect_identical(allocate_from_shm(obj), c(7, 8))
})

test_that("a damaged description is refused and the object is not leaked", {
  damage <- list(
    list(length = 11), list(type = 0L), list(size = 100), list(length = -1), list(type = "a"),
    list(length = 11, size = 44)
  )
  for (copy in c(TRUE, FALSE)) {
    for (change in damage) {
      obj <- copy2shm(1:10, new_name(), copy = copy)
      obj[names(change)] <- change
      expect_error(allocate_from_shm(obj), class = "regatta_error")
      expect_identical(objects_left(), character())
    }
  }
  obj <- copy2shm(1:10, new_name())
  other <- obj
  other$name <- "/rg_test_missing"
  expect_error(allocate_from_shm(other), class = "regatta_error_posix")
  expect_identical(allocate_from_shm(obj), 1:10)
})

consumed <- function(copy) {
  obj <- copy2shm(1:10 + 0, new_name(), copy = copy)
  allocate_from_shm(obj)
  obj
}

test_that("a pipe at the name of an object is an error at once, and stays", {
  skip_unless_linux()
  for (copy in c(TRUE, FALSE)) {
    obj <- consumed(copy)
    path <- shm_path(obj$name)
    system2("mkfifo", path)
    # In a session of its own: a wait of the system's for a writer would be for ever.
    got <- fault_run(function(obj) {
      tryCatch(allocate_from_shm(obj), error = identity)
    }, list(obj = obj))$value
    expect_s3_class(got, "regatta_error_posix")
    expect_identical(got$operation, "type")
    expect_match(conditionMessage(got), "cannot read 80 bytes from .*: it is no file .*\\(type\\)")
    expect_true(file.exists(path))
    unlink(path)
  }
})

test_that("a folder, a link and a device at the name of an object are errors", {
  skip_unless_linux()
  obj <- consumed(FALSE)
  path <- shm_path(obj$name)
  operation <- function() expect_error(allocate_from_shm(obj), class = "regatta_error_posix")$operation
  withr::defer(unlink(path, recursive = TRUE))
  dir.create(path)
  expect_true(operation() %in% c("shm_open", "type"))
  unlink(path, recursive = TRUE)
  file.symlink("/dev/zero", path)
  expect_identical(operation(), "shm_open")
  unlink(path)
  made <- suppressWarnings(system2("mknod", c(path, "c", "1", "5"), stderr = FALSE))
  skip_if(made != 0L, "no rights to make a device")
  expect_true(operation() %in% c("shm_open", "type"))
})

test_that("an object that another user has put at a name is refused", {
  skip_unless_other_user()
  for (copy in c(TRUE, FALSE)) {
    obj <- consumed(copy)
    path <- shm_path(obj$name)
    as_other_user(sprintf("umask 0; head -c 80 /dev/zero > %s", path))
    expect_identical(file.size(path), 80)
    error <- expect_error(allocate_from_shm(obj), class = "regatta_error_posix")
    expect_identical(error$operation, "owner")
    expect_match(conditionMessage(error), "belongs to another user")
    expect_true(file.exists(path))
    unlink(path)
  }
})

test_that("no vector stands on a file that somebody can shorten", {
  skip_unless_linux()
  got <- fault_run(function(path) {
    name <- basename(path)
    stands <- function(x) any(grepl("POSIX shared", capture.output(.Internal(inspect(x)))))
    # `prepare` gives somebody a way to the file, `shorten` takes it.
    try_way <- function(prepare, shorten) {
      obj <- copy2shm(1:1e5 + 0, paste0("/", name), copy = FALSE)
      means <- prepare()
      x <- allocate_from_shm(obj)
      shorten(means)
      list(stands = stands(x), same = identical(x, 1:1e5 + 0))
    }
    second <- paste0(path, "_second")
    list(
      alone = try_way(function() NULL, function(means) NULL),
      link = try_way(
        function() file.link(path, second),
        function(means) {
          system2("truncate", c("-s", "0", second))
          unlink(second)
        }
      ),
      writer = try_way(function() file(path, "r+b"), function(means) {
        truncate(means)
        close(means)
      })
    )
  }, list(path = shm_path(new_name())))$value
  expect_identical(got$link, list(stands = FALSE, same = TRUE))
  expect_identical(got$writer, list(stands = FALSE, same = TRUE))
  skip_if(!got$alone$stands, "this system does not tell who has a file open")
  expect_true(got$alone$same)
})

test_that("wrong arguments are errors that name them", {
  for (x in list("a", list(1), NULL, sum, asS4(structure(1, class = "s4")))) {
    error <- expect_error(copy2shm(x, "/rg_test"), class = "regatta_error_argument")
    expect_identical(error$argument, "x")
  }
  expect_error(copy2shm(1, 1), class = "regatta_error_argument")
  expect_error(copy2shm(1, ""), class = "regatta_error_argument")
  expect_error(copy2shm(1, new_name(), overwrite = NA), class = "regatta_error_argument")
  expect_error(copy2shm(1, new_name(), copy = "yes"), class = "regatta_error_argument")
  expect_error(copy2shm(1, "/."), "A name is", class = "regatta_error_posix")
  expect_error(copy2shm(1, strrep("a", 300)), class = "regatta_error_posix")
  expect_error(allocate_from_shm(list()), class = "regatta_error_argument")
})

test_that("lists of vectors are taken apart and put together again", {
  x <- list(
    data.frame(a = c(1, 2, 3), b = letters[1:3]), list(1:3 + 0L, c(TRUE, FALSE), list(2i)), "text",
    NULL, sum, 1, as.list(formals(function(a, b = 2) 1))
  )
  for (copy in c(TRUE, FALSE)) {
    shared <- vectors2shm(x, name_prefix = new_name(), copy = copy)
    expect_s3_class(shared[[1L]]$a, "shm_obj")
    expect_identical(shared[[2L]][[3L]], list(2i)) # shorter than two elements
    expect_identical(shared[[6L]], 1)
    expect_identical(shm2vectors(shared), x)
    expect_identical(objects_left(), character())
  }
  expect_identical(shm2vectors(vectors2shm(c(1, 2), name_prefix = new_name())), c(1, 2))
})

test_that("which vectors are shared can be chosen, and a failure leaves none", {
  compact <- list(1:10)
  expect_identical(vectors2shm(compact, name_prefix = new_name()), compact)
  shared <- vectors2shm(compact, share_altreps = "yes", name_prefix = new_name(), class = "mine")
  expect_s3_class(shared[[1L]], c("mine", "shm_obj"), exact = TRUE)
  expect_identical(shm2vectors(shared, class = "other"), shared)
  expect_identical(shm2vectors(shared, class = "mine"), compact)
  prefix <- new_name()
  taken <- copy2shm(1, paste0(prefix, 3))
  expect_error(
    vectors2shm(list(c(1, 2), c(3, 4), c(5, 6)), name_prefix = prefix), class = "regatta_error_posix"
  )
  expect_identical(objects_left(), sub("^/", "", taken$name))
  expect_identical(allocate_from_shm(taken), 1)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
