# Package mirai: what its daemons of this machine are sent may be handles of shared vectors.

mirai_hook <- function() {
  sender_register("mirai", function(fun) is_function_of(fun, "nanonext", "request"), "data", sends_mirai)
}

# mirai serialises in C code. Its daemons are of this machine where they listen at a socket of the
# file system, or at an abstract one.
sends_mirai <- function(caller, frame) {
  if (!isNamespaceLoaded("mirai") || !identical(topenv(environment(caller)), asNamespace("mirai"))) {
    return(FALSE)
  }
  profile <- get("envir", frame)
  url <- c(profile[["url"]], profile[["urls"]])
  is.character(url) && length(url) > 0L && all(grepl("^(abstract|ipc|unix|inproc)://", url))
}
