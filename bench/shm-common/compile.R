# Loads C code of the benchmarks into this process.

# The dll made of `files`, compiled in a temporary folder with R's own flags and `flags` after them.
# Stops with the compiler's words if that fails: what is measured here cannot be skipped.
load_c <- function(files, flags = "") {
  folder <- tempfile("bench-c")
  dir.create(folder)
  file.copy(files, folder)
  sources <- list.files(folder, pattern = "[.]c$")
  # For each target, because what Makevars sets for all of them is overridden by R's own.
  objects <- paste(sub("c$", "o", sources), collapse = " ")
  writeLines(c(paste0(objects, ": CFLAGS += ", flags), "PKG_CFLAGS = -pthread", "PKG_LIBS = -pthread"),
             file.path(folder, "Makevars"))
  old <- setwd(folder)
  on.exit(setwd(old))
  output <- suppressWarnings(system2(file.path(R.home("bin"), "R"),
                                     c("CMD", "SHLIB", "-o", "bench.so", sources),
                                     stdout = TRUE, stderr = TRUE))
  if (!is.null(attr(output, "status"))) {
    stop("the C code of the benchmark does not compile:\n", paste(output, collapse = "\n"))
  }
  dyn.load("bench.so")
}
