# Links: connections to processes that have proved who they are (src/handshake.h), on which a thread of
# the process moves messages (src/link.h). A message is an R object as bytes.

# `deadline`: how many seconds a peer that does not answer is waited for by the system; signs of life come
# several times in that time. A node waits longer for a session that was stopped (`Ctrl-Z`) and whose
# system answers.
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
  link_done(.Call(ffi_link_send, link, serialize(value, NULL, xdr = FALSE)), "send a message")
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
