.onLoad <- function(libname, pkgname) {
  the$pid <- Sys.getpid()
  # The entries in C, all at once: `.registration = TRUE` in NAMESPACE makes these variables one by one.
  list2env(getDLLRegisteredRoutines(entries_library)$.Call, topenv())
  progress_register("progressr", progressr_backend)
  delayedarray_hook()
  parallel_hook()
  future_hook()
  biocparallel_hook()
  callr_hook()
  mirai_hook()
}

.onUnload <- function(libpath) .Call(ffi_trial_end)

# The library stays when the namespace goes: vectors in shared memory outlive it, and their data and
# their finalizers are reached through the library.

# When all files of the package have been read.
the$code <- code_of_workers()
