set.seed(30)
detritus <- detritus_snapshot()

new_name <- function() sprintf("/rg_sem_%d", Sys.getpid())

# Evaluates fun(...) in a forked process and returns a function that waits for its value.
fork_call <- function(fun, ...) {
  withr::local_preserve_seed()
  args <- list(...)
  handle <- par_call(do.call(fun, args), .control = two_workers())
  function(timeout = 30) par_value(handle, timeout)
}

test_that("a named semaphore counts", {
  name <- new_name()
  error <- expect_error(sem_open(name), class = "regatta_error_posix")
  expect_match(conditionMessage(error), "cannot open the semaphore \"/rg_sem_")
  sem <- sem_open(name, create = TRUE, value = 2)
  withr::defer(try(sem_unlink(name), silent = TRUE))
  expect_type(sem, "externalptr")
  expect_s3_class(sem, "sem")
  expect_null(sem_wait(sem))
  expect_null(sem_wait(sem))
  expect_false(withVisible(sem_post(sem))$visible)
  sem_wait(sem)
  sem_close(sem)
  sem_unlink(name)
  expect_error(sem_unlink(name), class = "regatta_error_posix")
})

# Whether the value was above 0, from which 1 has been taken then.
take <- function(sem, seconds = 20) {
  tryCatch(
    {
      setTimeLimit(elapsed = seconds * slowness())
      sem_wait(sem)
      TRUE
    },
    error = function(e) FALSE,
    finally = setTimeLimit()
  )
}

test_that("a name that the system refuses is an error that tells what a name is", {
  for (name in c("/a/b", paste0("/", strrep("a", 300L)))) {
    error <- expect_error(sem_open(name, create = TRUE), class = "regatta_error_posix")
    expect_match(conditionMessage(error), "A name is \"/\" and up to 250", fixed = TRUE)
    expect_no_match(conditionMessage(error), "overwrite", fixed = TRUE)
    expect_error(copy2shm(1, name), "A name is \"/\" and up to 253", class = "regatta_error_posix")
  }
})

test_that("a semaphore that is there is opened or refused, and keeps its value", {
  name <- new_name()
  sem <- sem_open(name, create = TRUE, value = 1)
  withr::defer(try(sem_unlink(name), silent = TRUE))
  expect_error(sem_open(name, create = TRUE), "overwrite = TRUE", class = "regatta_error_posix")
  same <- sem_open(name)
  expect_true(take(same))
  sem_post(sem)
  again <- sem_open(name, create = TRUE, overwrite = TRUE)
  expect_true(take(again))
  also <- sem_open(name, create = TRUE, overwrite = TRUE, value = 3)
  expect_false(take(also, 0.3))
  sem_post(sem)
  expect_true(take(also))
  for (s in list(sem, same, again, also)) sem_close(s)
  sem_unlink(name)
  fresh <- sem_open(name, create = TRUE, overwrite = TRUE, value = 3)
  for (k in 1:3) expect_true(take(fresh))
  sem_close(fresh)
})

semaphore_path <- function(name) {
  path <- shm_path(sub("^/", "/sem.", name))
  if (!file.exists(path)) skip("semaphores are no files of this name here")
  path
}

# How the ways to open a semaphore end: the failed operation of the error.
operations <- function(name) {
  ways <- list(
    function() sem_open(name), function() sem_open(name, create = TRUE, overwrite = TRUE)
  )
  vapply(ways, function(way) {
    tryCatch(
      {
        sem_close(way())
        "opened"
      },
      regatta_error_posix = function(e) e$operation
    )
  }, "")
}

test_that("what is no semaphore of this user is not opened", {
  skip_unless_linux()
  name <- new_name()
  sem_close(sem_open(name, create = TRUE))
  path <- semaphore_path(name)
  withr::defer(unlink(path))
  Sys.chmod(path, "666", use_umask = FALSE)
  expect_identical(operations(name), c("mode", "mode"))
  unlink(path)
  file.create(path)
  Sys.chmod(path, "600", use_umask = FALSE)
  expect_identical(operations(name), c("size", "size"))
  unlink(path)
  system2("mkfifo", path)
  expect_identical(operations(name), c("type", "type"))
  unlink(path)
  file.symlink("/dev/zero", path)
  expect_identical(operations(name), c("sem_open", "sem_open"))
})

test_that("the semaphore of another user is not opened", {
  skip_unless_other_user()
  name <- new_name()
  sem_close(sem_open(name, create = TRUE))
  path <- semaphore_path(name)
  sem_unlink(name)
  withr::defer(unlink(path))
  as_other_user(sprintf("umask 0; head -c 32 /dev/zero > %s", path))
  expect_identical(file.size(path), 32)
  expect_identical(operations(name), c("owner", "owner"))
  error <- expect_error(sem_open(name), class = "regatta_error_posix")
  expect_match(conditionMessage(error), "cannot open the semaphore .*: .*another user.* \\(owner\\)")
  # It is not this user's to remove.
  expect_true(file.exists(path))
})

test_that("a wait in one process ends by a post in another", {
  name <- new_name()
  sem <- sem_open(name, create = TRUE)
  withr::defer(try(sem_unlink(name), silent = TRUE))
  value <- fork_call(function(name) {
    own <- sem_open(name)
    sem_wait(own)
    "awake"
  }, name)
  expect_error(value(0.3), class = "regatta_error_pending")
  sem_post(sem)
  expect_identical(value(), "awake")
  sem_close(sem)
})

test_that("waits can be interrupted", {
  skip_unless_linux()
  session <- local_session(function(name) {
    sem <- sem_open(name, create = TRUE)
    sem_unlink(name)
    id <- semv_open(0)
    interrupted <- function(code) {
      tryCatch(allowInterrupts({
        cat("waits\n")
        code
        FALSE
      }), interrupt = function(e) TRUE)
    }
    got <- suspendInterrupts(c(interrupted(sem_wait(sem)), interrupted(semv_wait(id))))
    semv_unlink(id)
    got
  }, list(name = new_name()))
  pid <- session$process$get_pid()
  for (times in 1:2) {
    fault_wait_line(session, "waits", times = times)
    wait_until(is_resting(pid))
    tools::pskill(pid, tools::SIGINT)
  }
  expect_identical(fault_value(session)$value, c(TRUE, TRUE))
})

test_that("a closed semaphore says so, and closing twice does no harm", {
  name <- new_name()
  sem <- sem_open(name, create = TRUE)
  sem_unlink(name)
  sem_close(sem)
  for (use in list(sem_post, sem_wait, sem_close)) expect_error(use(sem), "closed")
})

test_that("a System V semaphore counts", {
  id <- semv_open(1)
  expect_s3_class(id, "semv")
  expect_type(unclass(id), "integer")
  expect_null(semv_wait(id))
  expect_false(withVisible(semv_post(id))$visible)
  semv_wait(id, undo = FALSE)
  semv_unlink(id)
  for (use in list(semv_wait, semv_post, semv_unlink)) {
    expect_error(use(id), class = "regatta_error_posix")
  }
})

test_that("what a process has taken is given back when it is killed, unless undo is off", {
  id <- semv_open(2)
  withr::defer(try(semv_unlink(id), silent = TRUE))
  die <- function(id, undo) {
    semv_wait(id, undo = undo)
    tools::pskill(Sys.getpid(), tools::SIGKILL)
    Sys.sleep(60)
  }
  expect_error(fork_call(die, id, TRUE)(), class = "regatta_error_death")
  semv_wait(id)
  semv_wait(id)
  semv_post(id)
  expect_error(fork_call(die, id, FALSE)(), class = "regatta_error_death")
  value <- fork_call(function(id) semv_wait(id), id)
  expect_error(value(0.3), class = "regatta_error_pending")
  semv_post(id)
  expect_null(value())
})

test_that("wrong arguments are errors that name them", {
  expect_error(sem_open(1), class = "regatta_error_argument")
  expect_error(sem_open("/x", create = NA), class = "regatta_error_argument")
  expect_error(sem_open("/x", create = TRUE, value = -1), class = "regatta_error_argument")
  expect_error(sem_post("/x"), class = "regatta_error_argument")
  expect_error(sem_unlink(NA_character_), class = "regatta_error_argument")
  expect_error(semv_open(-1), class = "regatta_error_argument")
  expect_error(semv_open(40000), class = "regatta_error_argument")
  expect_error(semv_wait(1), class = "regatta_error_argument")
  expect_error(semv_post(structure(1L, class = "semv"), undo = 1), class = "regatta_error_argument")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
