# A log: a folder with records that survive the session that writes them; src/log.h says how. A record
# has a type, a key, the number of an element and an R object.

log_types <- c(call = 1L, value = 2L, file = 3L)

# A log of the folder, which is made if it is to be written to: list(folder, pointer, records, damaged). `records`
# has a row for each whole record, `damaged` is how many bytes belong to none. Or a failure,
# list(operation, errno, holder).
log_open <- function(folder, write) {
  if (write) dir.create(folder, showWarnings = FALSE, recursive = TRUE, mode = "0700")
  folder <- normalizePath(folder, mustWork = FALSE)
  got <- .Call(ffi_log_open, folder, write)
  if (is_log_failure(got)) {
    return(got)
  }
  list(
    folder = folder, pointer = got$pointer, damaged = got$damaged,
    records = list2DF(got[c("type", "key", "index", "offset", "size")])
  )
}

# The numbers by which a system says that somebody else has a lock (EAGAIN, EACCES).
log_taken <- c(11L, 13L, 35L)

is_log <- function(folder) file.exists(file.path(folder, "regatta.log"))

is_log_failure <- function(x) is.list(x) && identical(names(x), c("operation", "errno", "holder"))

# Who has the lock, in words.
log_holder <- function(folder) {
  path <- file.path(folder, "regatta.holder")
  text <- if (file.exists(path)) tryCatch(readLines(path, n = 1L, warn = FALSE), error = function(e) character())
  if (length(text) == 1L) shorten(text, 100L) else "another process"
}

# TRUE, or a failure; a jump, as by Ctrl-C, leaves no part of a record. A value that would make a record of more
# than log_large bytes is put into a file of its own, and `facts` alone into the record; `bytes` is what is known of
# its size.
log_append <- function(log, type, key, index, facts, value = NULL, bytes = 0) {
  if (bytes < log_large) {
    payload <- log_payload(facts, value)
    if (length(payload) < log_large || type == "call") {
      return(log_append_bytes(log, type, key, index, list(payload)))
    }
  }
  name <- paste0(key, ".value")
  sums <- unwarned(.Call(ffi_log_file_write, log$folder, name, value))
  if (is_log_failure(sums)) {
    return(sums)
  }
  facts$file <- list(name = name, size = sums[[1L]], sum = sums[[2L]])
  log_append(log, "file", key, index, facts)
}

log_payload <- function(facts, value) {
  payload <- list(facts = facts, value = value)
  if (is_plain_value(value)) serialize(payload, NULL, xdr = FALSE) else to_bytes(payload)
}

# Most values are of this kind, and nothing warns of one.
is_plain_value <- function(x) is.atomic(x) && is.null(attributes(x))

# Several records with one write: all of them are there then, or none.
log_append_bytes <- function(log, type, keys, index, payloads) {
  .Call(ffi_log_append, log$pointer, log_types[[type]], keys, index, payloads)
}

# Bytes from which on a value has a file of its own.
log_large <- 2^20

# The objects of these rows of `records`, list(facts, value) each; NULL for one that is damaged. With `values` the
# files are read too.
log_read <- function(log, rows, values = TRUE) {
  records <- log$records[rows, ]
  payloads <- .Call(ffi_log_read, log$pointer, records$offset, records$size)
  lapply(payloads, function(payload) {
    # The checksum is right; what cannot be read was written by code that this session does not have.
    object <- if (!is.null(payload)) tryCatch(unserialize(payload), error = function(e) NULL)
    if (!is.null(object$facts$file) && values) object <- log_read_file(log, object)
    .Call(ffi_encode_own_tables, object)
  })
}

log_read_file <- function(log, object) {
  file <- object$facts$file
  path <- file.path(log$folder, basename(file$name))
  sums <- .Call(ffi_log_file_check, path)
  if (is_log_failure(sums) || !identical(sums, c(file$size, file$sum))) {
    return(NULL)
  }
  from <- file(path, "rb")
  on.exit(close(from))
  object["value"] <- list(unserialize(from))
  object
}

log_sync <- function(log) .Call(ffi_log_sync, log$pointer)

log_close <- function(log) invisible(.Call(ffi_log_close, log$pointer))
