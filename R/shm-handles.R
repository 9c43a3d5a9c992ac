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
      sender(sys.function(caller), sys.frame(caller)),
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
  argument <- serialised_argument(sys.function(writer))
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

serialised_argument <- function(writer) {
  if (identical(writer, base::serialize) || identical(writer, base::saveRDS)) {
    "object"
  } else if (is_function_of(writer, "nanonext", "request")) {
    "data"
  }
}

has_other_class <- function(x) {
  inner <- unname(attributes(x))
  if (is.list(x)) inner <- c(inner, unclass(x))
  (is.atomic(x) && is.object(x) && .Call(ffi_shm_array_has_lost_class, x)) ||
    any(vapply(inner, has_other_class, NA))
}

# For a function that serialises, the one that looks at its caller; NULL where nobody is known to use
# it for a reader of this machine.
known_sender <- function(writer) {
  if (identical(writer, base::serialize)) {
    sends_parallel
  } else if (identical(writer, base::saveRDS)) {
    sends_callr
  } else if (is_function_of(writer, "nanonext", "request")) {
    sends_mirai
  }
}

# A function is recognised by what it is, in the namespace it is from, and not by its name.
is_function_of <- function(fun, package, names) {
  isNamespaceLoaded(package) && identical(environment(fun), asNamespace(package)) &&
    any(vapply(names, function(name) {
      identical(fun, get0(name, envir = asNamespace(package), inherits = FALSE))
    }, NA))
}

# What the session sends to a node; clusters of other packages, future's among them, send by the same
# functions. On a node the session's end has no `host`: the node may end or collect what it has sent
# before the session has read it.
sends_parallel <- function(caller, frame) {
  if (!is_function_of(caller, "parallel", c("sendData.SOCKnode", "sendData.SOCK0node"))) {
    return(FALSE)
  }
  node <- get("node", frame, inherits = FALSE)
  is.character(node$host) && is_near(node$con)
}

# Whether the other end of a socket connection is an R process on this machine. The name of its host
# does not tell: what comes through a tunnel is from this machine, too.
is_near <- function(con) {
  about <- summary(con)
  port <- suppressWarnings(as.integer(sub("^.*:", "", about$description)))
  about$class == "sockconn" && !is.na(port) && .Call(ffi_shm_peer_is_near, port)
}

# callr hands the arguments of a call over in a file, which its process reads when it starts.
sends_callr <- function(caller, frame) {
  is_function_of(caller, "callr", "save_function_to_temp")
}

# mirai serialises in C code. Its daemons are of this machine where they listen at a socket of the
# file system, or at an abstract one.
sends_mirai <- function(caller, frame) {
  if (!isNamespaceLoaded("mirai") || !identical(topenv(environment(caller)), asNamespace("mirai"))) {
    return(FALSE)
  }
  profile <- get("envir", frame)
  url <- c(profile[["url"]], profile[["urls"]])
  is.character(url) && length(url) > 0L && all(grepl("^(abstract|ipc|unix|inproc)://", url))
}
