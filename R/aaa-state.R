# State of the package, one place for all of it.
the <- new.env(parent = emptyenv())
the$pid <- NULL # the process that loaded the package
the$h5_entries <- NULL # the routines of the library for HDF5, once it is loaded
the$h5_folder <- NULL # where it is
the$h5_about <- NULL # what it was built with for HDF5, FALSE without
the$defaults <- NULL # what par_control() gives without arguments
the$checked <- NULL # the last settings that were found to be right, unless they are the defaults

# Of the session.
the$last <- NULL # the record of the last run
the$plan <- NULL # what the workers that are forked next are to do
the$fork_warned <- FALSE # whether the warning about forking in this host has been given
the$pool <- NULL # the workers of a session that must not be forked
the$pool_told <- FALSE # whether that has been said
the$code <- NULL # by kind, names of functions that workers need, from when the package is built: see code_of_workers()
the$code_loaded <- character() # kinds that have been read from disk
the$server_steps <- 0L # of a fork server, how far fork_server_idle() has come
the$senders <- list() # by package, what sender_register() was given
the$handles <- NULL # list(send, pid): whether somebody has said that shared vectors are serialised as handles
the$servers <- list() # the fork servers, by what they have loaded
the$wires <- new.env(parent = emptyenv()) # what is known of the nodes of clusters
the$reading <- FALSE # whether a message of one is being read
the$abandoned <- list() # runs on clusters that nobody has any more and that are to be stopped
the$abandoned_remote <- list() # the same of other hosts
the$places <- "regatta_session" # classes of which it is known that there is an executor for them
the$delayedarray <- NULL # the environment of the methods for that package
the$h5_tried <- new.env(parent = emptyenv()) # by path, list(state, requests): what was tried of a file as it is
the$h5_caches <- new.env(parent = emptyenv()) # caches of matrices in files, by their id

the$mapped <- NULL # list(fun, compiled): the last function of the workspace that forked workers were given
the$has_cores <- FALSE # whether it has cores of a budget for threads of its own
the$cores <- NULL # what cores_known() has found, and what that depends on

# What was found of code, packages and classes, to be found once.
the$analyses <- new.env(parent = emptyenv()) # which names code takes from elsewhere, by the code
the$key_code <- new.env(parent = emptyenv()) # the same for keys, and keys of code
the$package_classes <- NULL # classes_of_packages(), and what they were found in
the$methods <- NULL # the S3 methods that are registered, as methods_now() has found them
the$versions <- list() # what installed_version() has read
the$other_code <- list() # what is_other_code() has found
the$loaded <- NULL # what loaded_packages() has found
the$method_homes <- NULL # list(spaces, class, package): which packages have methods for which classes
the$worker_homes <- list(class = character(), package = character(), paths = character()) # that only workers have
the$attached_names <- NULL # what attached_names() has found
the$globals <- NULL # the last answer of globals_of(), and what that depends on
the$packages <- NULL # the same of packages_found()
the$engaged <- list() # by the token of a run, what it has of a cluster without sockets: addresses of `nodes`, and `busy`

# Of a worker.
the$master <- NULL # of a node of a cluster, list(id, socket): its connection to the session and the socket of that
the$ends_programs <- FALSE # whether it ends what elements have started when it ends itself
the$rest <- NULL # of a worker of cluster_local() that was in a run last, how it has been put back: see job_before()
the$settings <- NULL # of one that stands ready between runs, its options and the like as last looked at
the$options_given <- character() # names of options of the session that it was started with
# list(search, names): the search path without what the last run needed, and what of it attach_names() was given
the$attached <- NULL
the$depends <- list() # by its place on the search path, what a package that was detached has attached itself

# What calls the user's function is called from here, as base R's lapply() is from its own namespace: do.call(), eval(),
# get() and match.fun(), given as that function, look from there on, and find nothing of this package or of its imports.
# Before base R they come past the variables of the call alone.
caller_home <- new.env(parent = .BaseNamespaceEnv)

# The same for a function that another one returns, with the variables of that: `maker(...)` ends by this. It can use no
# function of the package but those among these variables. By one of them its frames are known: see is_around().
from_base <- function(fun) {
  env <- environment(fun)
  env$`*around*` <- TRUE
  parent.env(env) <- .BaseNamespaceEnv
  fun
}
