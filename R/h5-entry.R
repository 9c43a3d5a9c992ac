# The entries of the C++ side for HDF5, which is a library of its own (src/h5-init.cpp). With it come libhdf5 and some
# thirty libraries that libhdf5 asks for: 6 MB, and more time than a small map takes. The first entry that is called
# loads it, and like the library of the package it stays when the namespace goes.
h5_entry <- function(name) {
  if (is.null(the$h5_entries)) {
    library <- library.dynam("regatta_h5", "regatta", dirname(getNamespaceInfo("regatta", "path")))
    the$h5_folder <- dirname(library[["path"]])
    the$h5_entries <- getDLLRegisteredRoutines(library)$.Call
  }
  the$h5_entries[[name]]
}

# By another name: R CMD check evaluates what .Call() is given, in search of a routine of this library.
call_routine <- .Call

h5_invoke <- function(entry, ...) call_routine(h5_entry(entry), ...)

# Before a fork: each worker would load it anew. Who has no use for it must not fail for it.
h5_load <- function() {
  if (is.null(the$h5_entries)) or_else(h5_entry("ffi_h5_about"), NULL)
}

# If one of these objects is a function that calls an entry, as far as its own code shows.
h5_load_for <- function(objects) {
  if (is.null(the$h5_entries)) {
    for (object in objects) {
      if (is_closure(object) && any(startsWith(all.names(body(object), unique = TRUE), "h5_"))) return(h5_load())
    }
  }
}
