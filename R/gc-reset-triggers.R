# Forked children inherit the size that the heap may reach before memory is collected. After large
# objects have gone that size comes down by a little at each full collection only.

gc_reset_triggers <- function(print_stats = TRUE, verbose = getOption("verbose"), reset = TRUE) {
  check_flag(print_stats, "print_stats")
  check_flag(reset, "reset")
  before <- gc(verbose = verbose, full = FALSE)
  after <- before
  # The trigger of one kind of memory may rise while the other falls: once per percent is plenty.
  for (count in seq_len(100L)) {
    last <- after[, "gc trigger"]
    after <- gc(verbose = verbose, reset = reset, full = TRUE)
    if (all(after[, "gc trigger"] >= last)) {
      break
    }
  }
  if (!print_stats) {
    return(after)
  }
  cat("Memory before:\n")
  print(before)
  cat(sprintf("\nMemory after %d full %s:\n", count, if (count == 1L) "collection" else "collections"))
  print(after)
  invisible(after)
}
