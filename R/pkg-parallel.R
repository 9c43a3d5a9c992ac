# Package parallel knows the workers of this one: makeCluster(type = "regatta"), where R has a register of
# types (from 4.5 on). What it sends to nodes of this machine may be handles of shared vectors.

parallel_hook <- function() {
  sender_register("parallel", function(fun) identical(fun, base::serialize), "object", sends_parallel)
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

# What the session sends to a node; clusters of other packages, future's among them, send by the same
# functions. On a node the session's end has no `host`: the node may end or collect what it has sent
# before the session has read it.
sends_parallel <- function(caller, frame) {
  if (!is_function_of(caller, "parallel", c("sendData.SOCKnode", "sendData.SOCK0node"))) {
    return(FALSE)
  }
  node <- get("node", frame, inherits = FALSE)
  is.character(node$host) && is_near(node$con)
}

# Whether the other end of a socket connection is an R process on this machine. The name of its host
# does not tell: what comes through a tunnel is from this machine, too.
is_near <- function(con) {
  about <- summary(con)
  port <- suppressWarnings(as.integer(sub("^.*:", "", about$description)))
  about$class == "sockconn" && !is.na(port) && .Call(ffi_shm_peer_is_near, port)
}
