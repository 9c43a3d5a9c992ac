# Package parallel knows the workers of this one: makeCluster(type = "regatta"), where R has a register of
# types (from 4.5 on).

parallel_hook <- function() {
  if (isNamespaceLoaded("parallel")) parallel_register()
  setHook(packageEvent("parallel", "onLoad"), function(...) parallel_register())
}

# R's own takes any object of that name for a registration, `regatta` of this package when it is attached, and warns.
parallel_register <- function(register = parallel_registers()) {
  if (!is.null(register) && !"regatta" %in% register()) suppressWarnings(register("regatta", parallel_starter_of))
}

# There is no way to take a type out of the register, and to register it again is a warning: one that was made by this
# namespace before it was unloaded calls the one that is loaded then.
parallel_starter_of <- function(spec, ...) {
  get("parallel_starter", envir = getNamespace("regatta"))(spec, ...)
}

parallel_registers <- function() {
  get0("registerClusterType", envir = asNamespace("parallel"), mode = "function", inherits = FALSE)
}

# A number of workers here, or names of hosts, each as often as it is to have workers.
parallel_starter <- function(spec, ...) {
  if (is.numeric(spec)) {
    return(cluster_local(spec, ...))
  }
  if (is.character(spec) && all(spec %in% c("localhost", "127.0.0.1"))) {
    return(cluster_local(length(spec), ...))
  }
  hosts <- unique(spec)
  cluster_ssh(hosts, tabulate(match(spec, hosts), length(hosts)), ...)
}
