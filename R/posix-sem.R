# Semaphores: named ones of POSIX, and those of System V, which the system puts right when a process
# that holds one dies.

sem_open <- function(name, create = FALSE, overwrite = FALSE, value = 0) {
  check_posix_name(name, "name")
  check_flag(create, "create")
  check_flag(overwrite, "overwrite")
  check_sem_value(value, .Machine$integer.max)
  sem <- .Call(ffi_posix_sem_open, name, create, overwrite, as.double(value))
  if (is.list(sem)) {
    what <- sprintf("%s the semaphore %s", if (create) "create" else "open", quoted(name))
    advice <- if (identical(sem$errno, errno_exists)) {
      "`overwrite = TRUE` opens a semaphore that is there."
    } else if (!is_portable_name(name, 250L)) {
      "A name is \"/\" and up to 250 characters without another \"/\"."
    }
    signal_error(error_posix(what, sem, advice, sys.call()))
  }
  structure(sem, class = "sem")
}

sem_post <- function(sem) {
  sem_done(.Call(ffi_posix_sem_post, check_sem(sem)), "post to the semaphore", sys.call())
}

sem_wait <- function(sem) {
  sem_done(.Call(ffi_posix_sem_wait, check_sem(sem)), "wait for the semaphore", sys.call())
}

sem_close <- function(sem) {
  sem_done(.Call(ffi_posix_sem_close, check_sem(sem)), "close the semaphore", sys.call())
}

sem_unlink <- function(name) {
  check_posix_name(name, "name")
  what <- sprintf("remove the semaphore %s", quoted(name))
  sem_done(.Call(ffi_posix_sem_unlink, name), what, sys.call())
}

semv_open <- function(value = 0) {
  check_sem_value(value, semv_most)
  id <- .Call(ffi_semv_create, as.integer(value))
  if (is.list(id)) {
    advice <- "The system allows a limited number of them: `ipcs -s` lists those that are there."
    signal_error(error_posix("create a System V semaphore", id, advice, sys.call()))
  }
  structure(id, class = "semv")
}

semv_post <- function(sid, undo = TRUE) {
  check_flag(undo, "undo")
  failure <- .Call(ffi_semv_operate, check_semv(sid), 0L, 1L, undo)
  sem_done(failure, sprintf("post to the semaphore %d", sid), sys.call())
}

semv_wait <- function(sid, undo = TRUE) {
  check_flag(undo, "undo")
  failure <- .Call(ffi_semv_operate, check_semv(sid), 0L, -1L, undo)
  sem_done(failure, sprintf("wait for the semaphore %d", sid), sys.call())
}

semv_unlink <- function(sid) {
  failure <- .Call(ffi_semv_remove, check_semv(sid))
  sem_done(failure, sprintf("remove the semaphore %d", sid), sys.call())
}

# The largest value of a System V semaphore: it is kept in 16 bits, of which one is the sign.
semv_most <- 32767L

sem_done <- function(failure, what, call) {
  if (!is.null(failure)) {
    signal_error(error_posix(what, failure, call = call))
  }
  invisible(NULL)
}

check_sem <- function(x, call = rlang::caller_env()) {
  if (missing(x) || !inherits(x, "sem") || typeof(x) != "externalptr") {
    abort_argument("sem", x, "made by `sem_open()`", call = call)
  }
  x
}

check_semv <- function(x, call = rlang::caller_env()) {
  if (missing(x) || !inherits(x, "semv") || !is.integer(x) || length(x) != 1L) {
    abort_argument("sid", x, "made by `semv_open()`", call = call)
  }
  unclass(x)
}

check_sem_value <- function(x, most, call = rlang::caller_env()) {
  if (!is_whole(x) || x < 0 || x > most) {
    must <- sprintf("a whole number from 0 to %.0f", as.double(most))
    abort_argument("value", x, must, call = call)
  }
}
