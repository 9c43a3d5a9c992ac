wait_until <- function(condition, timeout = 120) {
  deadline <- Sys.time() + timeout
  while (!condition()) {
    if (Sys.time() > deadline) stop("nothing happened in ", timeout, " s")
    Sys.sleep(0.02)
  }
  invisible(TRUE)
}

printed_in <- function(file) {
  if (!file.exists(file)) return("")
  paste(readLines(file, warn = FALSE), collapse = "\n")
}

# Runs `code` in an R process of its own, which prints to `output` and its pid first.
start_r <- function(code, output) {
  script <- tempfile(fileext = ".R")
  library <- deparse(dirname(getNamespaceInfo("threadstats", "path")))
  writeLines(c("cat(\"pid\", Sys.getpid(), \"\\n\")",
               paste0("library(threadstats, lib.loc = ", library, ")"), code), script)
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = output,
          stderr = output, wait = FALSE)
  wait_until(function() grepl("^pid [0-9]+ ", printed_in(output)))
  as.integer(sub("^pid ([0-9]+) .*", "\\1", printed_in(output)))
}
