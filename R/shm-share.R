# Objects of the session in shared memory, and how they travel to other processes.

shm_share <- function(x, min = "64KB") {
  .Call(ffi_shm_share, x, check_bytes(min, "min", zero = TRUE), shm_limit())
}

shm_copy <- function(x) {
  .Call(ffi_shm_copy, shm_plain(x))
}

is_shm <- function(x) {
  if (is.list(x)) any(vapply(x, is_shm, NA)) else .Call(ffi_shm_is, x)
}

# Called from C for each shared vector that is serialised outside of a run: whether its handle will
# do, which only a process of this machine can use while this one keeps the object. What is written
# to a file may be read by any other. callr hands the arguments of a call over in such files.
# `known`: the process for which this one works has it, too. What a run sends is settled beforehand.
shm_travels <- function(known) {
  if (!is.null(the$travels)) {
    return(switch(the$travels, all = TRUE, known = known, none = FALSE))
  }
  frames <- seq_len(sys.nframe())
  savers <- list(saveRDS, save, save.image)
  saves <- FALSE
  for (frame in frames) {
    fun <- sys.function(frame)
    space <- environmentName(topenv(environment(fun)))
    if (space == "callr") {
      return(TRUE)
    }
    if (space == "parallel" && is_remote_node(sys.frame(frame))) {
      return(FALSE)
    }
    saves <- saves || any(vapply(savers, identical, NA, fun))
  }
  !saves
}

# Whether the frame is one of those in which parallel sends to a node on another machine.
is_remote_node <- function(frame) {
  node <- get0("node", frame, inherits = FALSE)
  host <- if (inherits(node, c("SOCKnode", "SOCK0node"))) node$host
  is.character(host) && !host %in% c("localhost", "127.0.0.1", "::1", Sys.info()[["nodename"]])
}
