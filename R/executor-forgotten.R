# A call or a stream that nobody can ask for anything any more has its workers, and what they hold, until R collects
# it. Who waits for these allocates next to nothing: the collection would never come by itself.

# Ends all that there are.
forgotten_end <- function() {
  gc()
  stop_abandoned_remote()
}

# For who waits for what others may have. The function that is returned is called before each wait: it ends what has
# been forgotten, `after` so many seconds and then ever less often, and returns for how many seconds to wait then: 0 if
# something may have become free just now.
forgotten_watch <- function(after = 0) {
  begun <- .Call(ffi_clock)
  next_at <- begun + after
  function() {
    now <- .Call(ffi_clock)
    if (now < next_at) {
      return(next_at - now)
    }
    forgotten_end()
    next_at <<- now + max(1, now - begun)
    0
  }
}
