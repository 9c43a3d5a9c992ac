detritus <- detritus_snapshot()

test_that("a lock keeps writers apart and a counter counts each", {
  withr::local_preserve_seed()
  x <- shm_array(1)
  lock <- shm_lock()
  counter <- shm_counter(5)
  par_lapply(1:400, function(i) {
    shm_add(counter)
    with_shm_lock(lock, x[1] <- x[1] + i)
  }, .control = par_control(workers = 2, batch = 3))
  expect_identical(x[1], sum(1:400) + 0)
  expect_identical(shm_value(counter), 405)
  expect_identical(shm_add(counter, -5), 400)
})

test_that("the value of the expression is returned, and an error releases the lock", {
  lock <- shm_lock()
  expect_identical(with_shm_lock(lock, 1 + 1), 2)
  expect_error(with_shm_lock(lock, stop("inside")), "inside")
  expect_identical(with_shm_lock(lock, "free", timeout = 0), "free")
  expect_error(with_shm_lock(lock, with_shm_lock(lock, 1)), "already")
})

test_that("a holder that dies does not block the others", {
  withr::local_preserve_seed()
  lock <- shm_lock()
  run <- suppressWarnings(par_lapply(1:2, function(i) {
    if (i == 1L) with_shm_lock(lock, tools::pskill(Sys.getpid(), 9L))
    i
  }, .control = par_control(workers = 1, errors = "collect", dump = "no")))
  expect_s3_class(run[[1L]], "regatta_error_death")
  expect_warning(with_shm_lock(lock, 1, timeout = 20), "has died")
  expect_silent(with_shm_lock(lock, 1, timeout = 0))
})

test_that("waiting for a lock ends in time, with an error", {
  withr::local_preserve_seed()
  lock <- shm_lock()
  started <- shm_counter()
  job <- par_call({
    with_shm_lock(lock, {
      shm_add(started)
      while (shm_value(started) < 2) Sys.sleep(0.01)
    })
  })
  while (shm_value(started) < 1) Sys.sleep(0.01)
  expect_error(with_shm_lock(lock, 1, timeout = 0.1), "was not free within 0.1 s")
  shm_add(started)
  par_value(job)
  expect_identical(with_shm_lock(lock, "got"), "got")
})

test_that("both travel by handle", {
  counter <- shm_counter()
  again <- unserialize(with_shm_handles(serialize(counter, NULL)))
  shm_add(again, 3)
  expect_identical(shm_value(counter), 3)
  lock <- unserialize(with_shm_handles(serialize(shm_lock(), NULL)))
  expect_identical(with_shm_lock(lock, 1), 1)
})

test_that("bad arguments are named", {
  expect_error(with_shm_lock(1, 2), "`lock` must be made by `shm_lock()`", fixed = TRUE)
  expect_error(shm_add(shm_counter(), 0.5), "`by`")
  expect_error(shm_value(structure(raw(8), class = "shm_counter")), "`counter`")
  expect_error(shm_counter("a"), "`start`")
  stored <- unserialize(serialize(shm_lock(), NULL))
  expect_error(with_shm_lock(stored, 1), "copied or stored.* is no lock any more")
  expect_output(print(shm_counter(3)), "<shm_counter> 3", fixed = TRUE)
  expect_output(print(shm_lock()), "<shm_lock>", fixed = TRUE)
})

test_that("a counter does not go around", {
  up <- shm_counter(2^53)
  down <- shm_counter(-2^53)
  for (k in 1:1022) {
    shm_add(up, 2^53)
    shm_add(down, -2^53)
  }
  expect_identical(shm_add(down, -2^53), -2^63)
  expect_error(shm_add(up, 2^53), "beyond 2^63", fixed = TRUE)
  expect_error(shm_add(down, -1), "beyond 2^63", fixed = TRUE)
  expect_identical(c(shm_value(up), shm_value(down)), c(1023 * 2^53, -2^63))
  expect_identical(shm_add(up, -2^53), 1022 * 2^53)
})

test_that("a lock or counter is not copied, since its copy would be the same", {
  for (x in list(shm_lock(), shm_counter(3))) {
    for (y in list(x, list(1, list(x)), structure(1, at = x), unserialize(with_shm_handles(serialize(x, NULL))))) {
      expect_error(shm_copy(y), "`x` must be what can be copied", class = "regatta_error_argument")
    }
    expect_identical(shm_copy(unserialize(serialize(x, NULL))), unserialize(serialize(x, NULL)))
  }
  n <- shm_counter(3)
  expect_error(shm_copy(n), "shm_value", class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})

test_that("a counter is not taken for a number, and can be made one", {
  counter <- shm_counter(3)
  for (compute in list(
    quote(counter + 1), quote(counter == 3), quote(3 < counter), quote(-counter), quote(sqrt(counter)),
    quote(max(counter)), quote(sum(counter)), quote(!counter)
  )) {
    told <- expect_error(eval(compute), class = "regatta_error_argument")
    expect_match(conditionMessage(told), "does not compute with a `shm_counter`.*shm_value\\(counter\\)")
  }
  expect_identical(as.numeric(counter), 3)
  expect_identical(as.integer(counter), 3L)
  expect_identical(as.character(counter), "3")
  shm_add(counter, -4)
  expect_identical(as.numeric(counter), -1)
})
