detritus <- detritus_snapshot()

test_that("a shared object is identical to the one it was made of", {
  withr::local_preserve_seed()
  set.seed(1)
  for (round in seq_len(if (nzchar(Sys.getenv("REGATTA_LONG"))) 3000L else 150L)) {
    x <- random_value()
    shared <- shm_share(x, min = sample(c(0, 100, 65536), 1L))
    expect_true(identical(shared, x, ignore.bytecode = FALSE, ignore.environment = FALSE))
  }
})

test_that("thousands of values come back from workers, handles and files as they were", {
  withr::local_preserve_seed()
  set.seed(2)
  values <- lapply(seq_len(2500L), function(i) random_value(longest = 300L))
  file <- withr::local_tempfile()
  same <- function(got) {
    # The surroundings of a function are copied as well.
    equal <- mapply(identical, got, values, MoreArgs = list(ignore.environment = TRUE))
    expect_identical(which(!equal), integer())
  }
  for (min in c(0, 100)) {
    control <- par_control(workers = 2L, shm_min = min, progress = FALSE)
    got <- par_lapply(seq_along(values), function(i) values[[i]], .control = control)
    same(got)
    same(unserialize(serialize(got, NULL)))
    shared <- lapply(values, shm_share, min = 2000)
    same(unserialize(serialize(shared, NULL)))
    same(unserialize(with_shm_handles(serialize(shared, NULL))))
    saveRDS(got, file, compress = FALSE)
    same(readRDS(file))
    saveRDS(shared, file, compress = FALSE)
    same(readRDS(file))
  }
})

test_that("whoever reads a handle gets the same pages", {
  withr::local_preserve_seed()
  x <- list(d = runif(1e5), s = rep(c("a", NA, "\u00e9"), 1e5), small = 1:3)
  gc()
  before <- nrow(shm_info()$regions)
  shared <- shm_share(x)
  bytes <- with_shm_handles(serialize(shared, NULL))
  expect_lt(length(bytes), 2000)
  again <- unserialize(bytes)
  expect_identical(again, x)
  expect_identical(nrow(shm_info()$regions), before + 1L)
})

test_that("what R has only read travels by handle, what was changed as it is", {
  withr::local_preserve_seed()
  x <- runif(1e5)
  shared <- shm_share(x)
  expect_identical(shared, x) # asks for a pointer through which it could write
  expect_lt(length(with_shm_handles(serialize(shared, NULL))), 2000)
  shared[[7L]] <- 0
  bytes <- with_shm_handles(serialize(shared, NULL))
  expect_gt(length(bytes), 8e5)
  expect_identical(unserialize(bytes)[1:8], c(x[1:6], 0, x[[8L]]))
})

test_that("content that was shared before is not stored twice", {
  withr::local_preserve_seed()
  x <- shm_share(runif(1e5))
  before <- sum(shm_info()$regions$bytes)
  y <- shm_share(list(x, x, more = 1:3))
  expect_identical(sum(shm_info()$regions$bytes), before)
  expect_identical(y[[2L]], x)
})

test_that("a change is seen in no other vector and no other process", {
  withr::local_preserve_seed()
  x <- runif(1e5)
  modify <- list(
    function(v) {
      v[1] <- 5
      v
    },
    function(v) {
      v[[2]] <- 5
      v
    },
    function(v) {
      attr(v, "a") <- 1
      v
    },
    function(v) {
      names(v) <- seq_along(v)
      v
    },
    function(v) {
      dim(v) <- c(100, 1000)
      v
    },
    sort, rev, function(v) v * 2, function(v) replace(v, 3, NA),
    function(v) {
      v[v > 0.5] <- 0
      v
    },
    function(v) {
      is.na(v) <- 4
      v
    },
    function(v) {
      length(v) <- 10
      v
    }
  )
  shared <- shm_share(x)
  bytes <- with_shm_handles(serialize(shared, NULL))
  for (change in modify) {
    expect_identical(change(unserialize(bytes)), change(x))
    expect_identical(unserialize(bytes), x)
    expect_identical(shared, x)
  }
  run <- par_lapply(1:4, function(i) {
    shared[i] <- -1
    shared[1:4]
  }, .control = par_control(workers = 2))
  expect_identical(run[[3L]], c(x[1:2], -1, x[[4L]]))
  expect_identical(shared, x)
})

test_that("a file holds the data themselves", {
  withr::local_preserve_seed()
  x <- list(runif(2e4), random_strings(2e4))
  file <- tempfile()
  on.exit(unlink(file), add = TRUE)
  saveRDS(shm_share(x), file)
  expect_gt(file.size(file), 1e5)
  expect_identical(readRDS(file), x)
})

test_that("shared objects travel through a parallel cluster as they are", {
  withr::local_preserve_seed()
  skip_if_not_installed("parallel")
  cluster <- parallel::makePSOCKcluster(2L)
  on.exit(parallel::stopCluster(cluster), add = TRUE)
  invisible(parallel::clusterCall(cluster, function(paths) .libPaths(paths), .libPaths()))
  x <- list(m = matrix(runif(1e5), 100), s = rep(letters, 4000))
  shared <- shm_share(x)
  got <- parallel::clusterCall(cluster, function(v) {
    before <- sum(v$m)
    v$m[1] <- 0
    list(before, table(v$s)[["q"]], v$m[1])
  }, shared)
  expect_identical(got[[2L]], list(sum(x$m), 4000L, 0))
  expect_identical(shared, x)
  # And back, where the data travel: the node may drop what it has sent.
  expect_identical(parallel::clusterCall(cluster, identity, shared)[[1L]], x)
})

test_that("shared objects travel through callr as they are", {
  withr::local_preserve_seed()
  skip_if_not_installed("callr")
  x <- list(m = matrix(runif(1e5), 100), s = rep(c("a", NA, "\u00e9"), 4000))
  shared <- shm_share(x)
  look <- function(v) {
    before <- list(sum(v$m), sum(is.na(v$s)))
    v$m[1] <- 0
    before
  }
  expected <- list(sum(x$m), 4000L)
  expect_identical(callr::r(look, list(shared), libpath = .libPaths()), expected)
  expect_identical(callr::r(function(v) v, list(shared), libpath = .libPaths()), x)
  worker <- callr::r_session$new(callr::r_session_options(libpath = .libPaths()))
  on.exit(worker$close(), add = TRUE)
  expect_identical(worker$run(look, list(shared)), expected)
  expect_identical(shared, x)
})

# Packages that need not be there are not named in the DESCRIPTION.
function_of <- function(package, name) {
  skip_if_not_installed(package)
  getExportedValue(package, name)
}

test_that("shared objects travel to workers of future", {
  withr::local_preserve_seed()
  plan <- function_of("future", "plan")
  before <- plan()
  on.exit(plan(before), add = TRUE)
  plan("multisession", workers = 2L)
  shared <- shm_share(list(m = matrix(runif(1e5), 100), s = rep(letters, 4000)))
  future <- function_of("future", "future")
  value <- function_of("future", "value")
  got <- value(future({
    list(sum(shared$m), table(shared$s)[["q"]])
  }, packages = "regatta"))
  expect_identical(got, list(sum(shared$m), 4000L))
})

test_that("shared objects travel to workers of mirai", {
  if (!nzchar(system.file(package = "mirai"))) skip("mirai is not installed")
  # Loaded, it keeps descriptors and threads to the end of the session.
  got <- fault_run(function() {
    mirai <- function(name) getExportedValue("mirai", name)
    mirai("daemons")(1L)
    on.exit(mirai("daemons")(0L))
    shared <- shm_share(list(m = matrix(runif(1e5), 100), s = rep(letters, 4000)))
    call <- mirai("mirai")({
      list(sum(shared$m), table(shared$s)[["q"]])
    }, shared = shared, .timeout = 60000)
    list(there = mirai("call_mirai")(call)$data, here = sum(shared$m))
  })$value
  expect_identical(got$there, list(got$here, 4000L))
})

test_that("a map passes shared objects on by handle", {
  withr::local_preserve_seed()
  x <- shm_share(runif(1e6))
  got <- par_lapply(1:3, function(i) x, .control = par_control(workers = 2))
  expect_identical(got[[3L]], x)
  expect_lt(max(par_last()$elements$bytes), 2000)
})

test_that("damaged, forged and stale handles are errors that say so", {
  withr::local_preserve_seed()
  x <- shm_share(runif(1e5))
  bytes <- with_shm_handles(serialize(x, NULL))
  at <- grepRaw("RGHR", bytes, fixed = TRUE)
  expect_length(at, 1L)
  # Numbers have their lowest byte first.
  members <- offsets_of("shm-bytes.h", "rg_handle", c("form", "type", "length", "offset", "size", "live", "key.tag"))
  change <- function(member, value, byte = 0L) {
    damaged <- bytes
    k <- at + members[[member]] + byte
    damaged[k] <- if (is.null(value)) xor(bytes[k], as.raw(1L)) else as.raw(value)
    expect_false(identical(damaged, bytes))
    damaged
  }
  expect_identical(readBin(bytes[at + members[["length"]] + 0:3], "integer", endian = "little"), 100000L)
  expect_error(unserialize(change("form", 0)), "no form")
  expect_error(unserialize(change("type", 99)), "damaged")
  expect_error(unserialize(change("length", 7, 4L)), "damaged")
  expect_error(unserialize(change("offset", 7, 5L)), "damaged")
  expect_error(unserialize(change("size", 1)), NA) # within the page that is there
  expect_error(unserialize(change("live", 99)), "no kind 99")
  expect_error(unserialize(change("key.tag", NULL)), "forged|gone|fit")
  expect_error(unserialize(bytes[seq_len(length(bytes) - 20L)]))
  rm(x)
  gc()
  expect_error(unserialize(bytes), "gone: process")
})

test_that("shm_copy() makes ordinary vectors of it", {
  withr::local_preserve_seed()
  x <- data.frame(a = runif(1e4), s = rep("x", 1e4))
  shared <- shm_share(x, min = 0)
  copy <- shm_copy(shared)
  expect_identical(copy, x)
  expect_false(.Call(ffi_shm_is, copy$a))
  expect_true(.Call(ffi_shm_is, shared$a))
})

test_that("the limit is an error with numbers", {
  withr::local_preserve_seed()
  gc()
  old <- options(regatta.shm_max = sum(shm_info()$regions$bytes) + 1e6)
  on.exit(options(old), add = TRUE)
  expect_error(shm_share(runif(1e6)), "8 MB", class = "regatta_error_memory")
  expect_error(shm_array(1e6), "8 MB", class = "regatta_error_memory")
  y <- shm_share(runif(1e4))
  expect_length(y, 1e4)
})

test_that("memory goes back when the last vector does", {
  withr::local_preserve_seed()
  gc()
  before <- nrow(shm_info()$regions)
  x <- shm_share(list(runif(1e5), runif(1e5)))
  first <- x[[1L]]
  rm(x)
  gc()
  expect_identical(nrow(shm_info()$regions), before + 1L)
  rm(first)
  gc()
  expect_identical(nrow(shm_info()$regions), before)
})

test_that("bad arguments are named", {
  expect_error(shm_share(1, min = "lots"), "`min`", class = "regatta_error_argument")
  expect_error(shm_share(1, min = -1), "`min`")
})

test_that("what a worker shares and returns does not hang on the worker", {
  withr::local_preserve_seed()
  got <- par_lapply(1:200, function(i) {
    if (i %% 2 == 0) gc(full = FALSE)
    list(shm_share(rep(i + 0.5, 1e4)))
  }, .control = par_control(workers = 1, batch = 20, dump = "no"))
  expect_identical(vapply(got, function(v) sum(v[[1L]]), 0), (1:200 + 0.5) * 1e4)
})

test_that("shm_copy() keeps the kind of what it copies", {
  withr::local_preserve_seed()
  setClass("holder", representation(v = "numeric"), where = globalenv())
  on.exit(removeClass("holder", where = globalenv()), add = TRUE)
  x <- list(p = pairlist(a = 1, 2), s = new("holder", v = runif(1e4)), e = globalenv(), NULL)
  attr(x, "big") <- runif(1e4)
  copy <- shm_copy(shm_share(x, min = 0))
  expect_identical(copy, x)
  expect_true(isS4(copy$s))
  expect_false(.Call(ffi_shm_is, copy$s@v))
  expect_false(.Call(ffi_shm_is, attr(copy, "big")))
})

test_that("numbers are made of shared whole ones as R makes them of its own", {
  whole <- c(NA, 0L, -1L, .Machine$integer.max, rep(5L, 1e5))
  for (x in list(whole, whole > 0L, stats::setNames(whole, seq_along(whole)), matrix(whole, 4), factor(whole))) {
    shared <- shm_share(x, min = 0)
    expect_true(is_shm(shared))
    expect_identical(as.numeric(shared), as.numeric(x))
    expect_identical(`storage.mode<-`(unclass(shared), "double"), `storage.mode<-`(unclass(x), "double"))
    expect_identical(unclass(shared) > 0.5, unclass(x) > 0.5)
    changed <- unclass(shared)
    changed[2L] <- 0.5
    expect_identical(changed, `[<-`(unclass(x), 2L, 0.5))
    expect_identical(shared, x)
  }
})

test_that("repeats are found in vectors of any pattern", {
  withr::local_preserve_seed()
  u <- sprintf("s%d", 1:70000)
  for (x in list(rep(u, 9), rep(u, each = 9), sample(u, 6e5, TRUE))) {
    shared <- shm_share(x)
    expect_lt(sum(utils::head(shm_info()$regions$bytes, 1L)), 6e6)
    expect_identical(shared[c(1L, 77777L, length(x))], x[c(1L, 77777L, length(x))])
  }
  distinct <- shm_share(sprintf("s%d", 1:6e5))
  expect_identical(distinct[599999:600000], c("s599999", "s600000"))
})

test_that("is_shm() looks into lists and not at what their classes say of them", {
  shared <- shm_share(structure(list(numeric(1e5)), class = "regatta_test_list"))
  registerS3method("as.list", "regatta_test_list", function(x, ...) stop("asked"))
  withr::defer(rm("as.list.regatta_test_list", envir = asNamespace("base")[[".__S3MethodsTable__."]]))
  expect_true(is_shm(shared))
  expect_false(is_shm(pairlist(1, pairlist(2))))
  expect_true(is_shm(pairlist(1, a = shared)))
})

test_that("is_shm() looks into lists however deep they are, and leaves values the session's to change in place", {
  value <- numeric(1e5) + 1
  deep <- shm_share(value)
  ordinary <- 1
  for (k in 1:5000) {
    deep <- list(k, deep)
    ordinary <- list(k, ordinary)
  }
  expect_true(is_shm(deep))
  expect_false(is_shm(ordinary))
  table <- list(numeric(10))
  table[[1L]][[1L]] <- 1
  address <- rlang::obj_address(table[[1L]])
  is_shm(table)
  table[[1L]][[2L]] <- 2
  expect_identical(rlang::obj_address(table[[1L]]), address)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
