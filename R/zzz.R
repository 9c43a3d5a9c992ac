.onLoad <- function(libname, pkgname) {
  the$pid <- Sys.getpid()
  progress_register("progressr", progressr_backend)
  delayedarray_hook()
  parallel_hook()
  future_hook()
  biocparallel_hook()
}

# The library stays when the namespace goes: vectors in shared memory outlive it, and their data and
# their finalizers are reached through the library.

# When all files of the package have been read.
the$code <- code_of_workers()
