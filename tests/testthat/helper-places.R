# A worker of each kind that does not inherit the session: list(places = list(local, psock, agent), stop), the last of
# the places only where there can be one.
places_start <- function() {
  started <- list(psock = cluster_start(1L))
  if (.Call(regatta:::ffi_crypto_available) && dir.exists("/proc")) started$agent <- shell_cluster_start(1)
  places <- c(list(local = cluster_local(1L)), lapply(started, `[[`, "cluster"))
  list(places = places, stop = function() {
    parallel::stopCluster(places$local)
    for (one in started) one$stop()
  })
}

# A function of `code`, a call of lapply(), which is the same on all places, again and again.
everywhere_on <- function(places) {
  force(places)
  function(code, names = base::names(places)) {
    code <- substitute(code)
    expected <- eval(code, list(lapply = lapply), parent.frame())
    for (place in names) {
      map <- function(X, FUN, ...) par_lapply(X, FUN, ..., .on = places[[place]], .control = on_local())
      expect_identical(eval(code, list(lapply = map), parent.frame()), expected, label = place)
    }
    invisible(expected)
  }
}

# In the workspace, as a user's script; what it makes there goes.
script_in_workspace <- function(code) {
  before <- ls(globalenv(), all.names = TRUE)
  on.exit(suppressWarnings(rm(list = setdiff(ls(globalenv(), all.names = TRUE), before), envir = globalenv())))
  eval(substitute(code), globalenv())
}
