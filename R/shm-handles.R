# Who gets the handle of a shared vector in place of its data. Only a process of this machine can use
# one, and only while this one keeps the object: a handle in a file, a data base, a cache or the bytes
# of a hash is data lost. So it goes to those that are known to read at once on this machine, and to
# whom somebody names; whoever else serialises gets the data.

with_shm_handles <- function(expr) {
  check_given(expr, "expr", "the code that serialises")
  send_handles(TRUE, expr)
}

# Evaluates `code`, in which shared vectors are serialised as handles, or, where `send` is FALSE, as
# their data, whoever serialises. `held`: an environment that is to hold what handles were written for, as long
# as there is somebody who may still read them.
send_handles <- function(send, code, held = NULL) {
  before <- the$handles
  on.exit(the$handles <- before)
  the$handles <- list(send = send, pid = Sys.getpid(), held = held)
  code
}

# Called from C with the view of each shared vector that is serialised outside of a run. What a run sends is
# settled beforehand. A scope ends where the session is forked. The answer is kept in the frame of the
# function that serialises, which may have thousands of shared vectors.
sends_handles <- function(view) {
  scope <- the$handles
  if (!is.null(scope) && scope$pid == Sys.getpid()) {
    if (scope$send && !is.null(scope$held)) assign(rlang::obj_address(view), view, envir = scope$held)
    return(scope$send)
  }
  writer <- sys.nframe() - 1L
  if (writer < 1L || sys.parents()[[writer]] == 0L) {
    return(FALSE)
  }
  sender <- known_sender(sys.function(writer))
  if (is.null(sender)) {
    return(FALSE)
  }
  frame <- sys.frame(writer)
  answer <- get0(".regatta_sends_handles", frame, inherits = FALSE)
  if (is.null(answer)) {
    caller <- sys.parents()[[writer]]
    answer <- isTRUE(tryCatch(
      sender$sends(sys.function(caller), sys.frame(caller)),
      error = function(e) FALSE
    ))
    assign(".regatta_sends_handles", answer, envir = frame)
  }
  answer
}

# Called from C for each array, lock or counter that a handle may stand for: how each of what is being
# serialised is held, in the order in which R comes to them (src/shm-wrapper.h), or NULL where the
# object is not known. C code strikes out the answers that it has used.
wrapped_views <- function() {
  writer <- sys.nframe() - 1L
  if (writer < 1L) {
    return(NULL)
  }
  argument <- known_sender(sys.function(writer))$argument
  if (is.null(argument)) {
    return(NULL)
  }
  frame <- sys.frame(writer)
  views <- get0(".regatta_wrapped_views", frame, inherits = FALSE)
  if (is.null(views)) {
    object <- get(argument, frame)
    views <- unwarned(.Call(ffi_shm_wrapped, object, get0("refhook", frame, inherits = FALSE)))
    # A wrapper that has some class is an array's own, if it has not got that of something else.
    if (any(views[[2L]] == 1L) && has_other_class(object)) {
      views[[2L]][views[[2L]] == 1L] <- 2L
    }
    assign(".regatta_wrapped_views", views, envir = frame)
  }
  views
}

has_other_class <- function(x) {
  inner <- unname(attributes(x))
  if (is.list(x)) inner <- c(inner, unclass(x))
  (is.atomic(x) && is.object(x) && .Call(ffi_shm_array_has_lost_class, x)) ||
    any(vapply(inner, has_other_class, NA))
}

# Who serialises for readers of this machine is known only by what is registered (see pkg-callr.R and others):
# `is_writer(fun)` tells the function that does it, `argument` of that is what is serialised, and
# `sends(caller, frame)` tells whether the function that calls it does so for such a reader.
sender_register <- function(name, is_writer, argument, sends) {
  the$senders[[name]] <- list(is_writer = is_writer, argument = argument, sends = sends)
}

# NULL for a function that nobody is known to use so.
known_sender <- function(writer) {
  for (sender in the$senders) {
    if (sender$is_writer(writer)) return(sender)
  }
  NULL
}

# A function is recognised by what it is, in the namespace it is from, and not by its name.
is_function_of <- function(fun, package, names) {
  isNamespaceLoaded(package) && identical(environment(fun), asNamespace(package)) &&
    any(vapply(names, function(name) {
      identical(fun, get0(name, envir = asNamespace(package), inherits = FALSE))
    }, NA))
}
