# What stands in shared memory in this process.

shm_info <- function() {
  raw <- .Call(ffi_shm_info)
  regions <- data.frame(
    bytes = raw$bytes, owner = raw$owner, vectors = raw$references,
    kind = ifelse(raw$writable, "array", "shared")
  )
  structure(
    list(
      regions = regions, results = c(count = raw$blocks, bytes = raw$block_bytes),
      limit = shm_limit()
    ),
    class = "shm_info"
  )
}

format.shm_info <- function(x, ...) {
  regions <- x$regions
  lines <- c(
    "<shm_info> shared memory of this process",
    sprintf("results of maps:  %.0f in %s", x$results[["count"]], format_bytes(x$results[["bytes"]])),
    sprintf(
      "shared objects:   %d in %s", nrow(regions), format_bytes(sum(regions$bytes))
    ),
    sprintf("limit:            %s", format_bytes(x$limit))
  )
  shown <- utils::head(regions[order(-regions$bytes), ], 10L)
  own <- ifelse(shown$owner == Sys.getpid(), "", sprintf(", from process %d", shown$owner))
  detail <- sprintf(
    "  %s, %s, used by %d vector%s%s", vapply(shown$bytes, format_bytes, ""), shown$kind,
    shown$vectors, ifelse(shown$vectors == 1L, "", "s"), own
  )
  c(lines, detail)
}

print.shm_info <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}
