# Package data.table, where it is loaded: its threads in a worker, and tables that have come from another process.

# It counts its own threads and goes down to 1 in every forked child, so that nobody can tell here what it was set to.
data_table_threads <- function(n) {
  if (isNamespaceLoaded("data.table")) {
    data.table::setDTthreads(n)
  }
}

# Called from C: the same columns in a list that has room for more.
own_table <- function(x) {
  if (!isNamespaceLoaded("data.table")) {
    return(x)
  }
  tryCatch(data.table::setalloccol(x), error = function(e) x)
}
