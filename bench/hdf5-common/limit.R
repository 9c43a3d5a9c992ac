# limit.c, what no reader can do without: the chunks of a dataset inflated and forgotten. It needs a C compiler,
# libhdf5 and libdeflate; where it cannot be had that is said.

hdf5_flags <- function(what) {
  for (name in c("hdf5-serial", "hdf5")) {
    found <- suppressWarnings(system2("pkg-config", c(what, name), stdout = TRUE, stderr = FALSE))
    if (is.null(attr(found, "status"))) return(found)
  }
  ""
}

hdf5_has_limit <- local({
  library_path <- file.path(tempdir(), paste0("limit", .Platform$dynlib.ext))
  command <- paste("cc -O2 -fPIC -shared", hdf5_flags("--cflags"), "bench/hdf5-common/limit.c -o",
    shQuote(library_path), hdf5_flags("--libs"), "-ldeflate -pthread")
  compiled <- system(command, ignore.stderr = TRUE) == 0L
  if (compiled) dyn.load(library_path) else cat("skipped: limit, cannot be compiled:", command, "\n")
  compiled
})

# A dataset at a time.
hdf5_limit_load <- function(path, name) {
  if (.C("limit_load", path, name, 0L)[[3L]] != 0L) stop("the limit cannot read ", name, " of ", path, call. = FALSE)
}

hdf5_limit <- function(threads) {
  force(threads)
  function() if (.C("limit_inflate", threads, 0)[[2L]] == 0) stop("a chunk of the file is damaged")
}

hdf5_limit_free <- function() invisible(.C("limit_free"))
