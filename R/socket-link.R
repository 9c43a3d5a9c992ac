# Links: connections to processes that have proved who they are (src/handshake.h), on which a thread of
# the process moves messages (src/link.h). A message is an R object as bytes.

# `deadline`: how many seconds a peer that does not answer is waited for, by the session itself (remote_mind()) and by
# the system of a node; signs of life come several times in that time. A node waits longer for a session that was
# stopped (`Ctrl-Z`) and whose system answers.
link_settings <- function(deadline, is_node = FALSE) {
  list(min(1, deadline / 4), deadline, max(300, 3 * deadline), link_longest, is_node)
}

# The longest message.
link_longest <- 2^40

link_secret <- function() {
  need_crypto()
  .Call(ffi_crypto_random, 32L)
}

need_crypto <- function(call = rlang::caller_env(2)) {
  if (!.Call(ffi_crypto_available)) {
    signal_error(error_crypto(call))
  }
}

link_send <- function(link, value) {
  link_done(.Call(ffi_link_send, link, to_bytes(value)), "send a message")
  invisible()
}

# The next message, NULL if there is none, an error if there will be none.
link_take <- function(link) {
  bytes <- link_done(.Call(ffi_link_take, link), "receive a message")
  if (!is.null(bytes)) link_open(bytes)
}

# Messages are plain lists with plain strings in `type`: with `$` an object, an environment or a
# promise could run code of the sender's.
link_open <- function(bytes) {
  message <- unserialize(bytes)
  is_plain <- typeof(message) == "list" && !is.object(message) && is.character(names(message))
  if (!is_plain || typeof(.subset2(message, "type")) != "character") {
    signal_error(error_socket("receive a message", list(operation = "bad", errno = 0L)))
  }
  message
}

link_done <- function(result, what) {
  if (is.list(result) && !is.null(result$operation)) {
    signal_error(error_socket(what, result))
  }
  result
}

# Large bytes as they go over a link: compressed if that makes them much smaller, which a part of them
# tells. A compressed piece is no longer than R can read at once.
link_pack <- function(bytes) {
  if (length(bytes) < link_pack_from || !packs_well(bytes)) {
    return(bytes)
  }
  starts <- seq(1, length(bytes), by = link_piece)
  lapply(starts, function(from) {
    memCompress(bytes[from:min(from + link_piece - 1, length(bytes))], "gzip")
  })
}

link_unpack <- function(bytes) {
  if (is.raw(bytes)) bytes else unlist(lapply(bytes, memDecompress, "gzip"))
}

link_pack_from <- 1e6
link_piece <- 2^26

# Sixteen samples from all over.
packs_well <- function(bytes) {
  starts <- floor(seq(1, length(bytes) - 4096, length.out = 16))
  sample <- bytes[rep(starts, each = 4096) + 0:4095]
  length(memCompress(sample, "gzip")) < 0.6 * length(sample)
}
