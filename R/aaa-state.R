# State of the package, one place for all of it: `last`, the record of the last run; `plan`, what
# the workers that are forked next are to do; `fork_warned`, whether the warning about forking in
# this host has been given; `pool`, the workers of a session that must not be forked, and `pool_told`,
# whether that has been said; `code_loaded`, names of functions that have been read from disk for workers; `handles`,
# whether shared vectors are serialised as handles now, list(send, pid), where somebody has said so.
# `h5_about`, what the package was built with for HDF5, FALSE without; `pid`, the process that loaded
# the package; `wires`, what is known of the nodes of clusters; `reading`, whether a message of one is
# being read; `abandoned` and `abandoned_remote`, runs on clusters that nobody has any more and that are to be stopped;
# `delayedarray`, the environment of the methods for that package; `servers`, the fork servers by what they have
# loaded; `analyses`, which names code takes from elsewhere, by the code, and `names`, the same for keys; `tables`,
# what was found in the S3 methods of a namespace; `method_homes`, which packages have methods for which classes,
# list(loaded, class, package), and `worker_homes`, the same of packages that only workers have loaded; `attached_names`, what attached_names() has found;
# `places`, classes of which it is known that there is an executor for them; `defaults`, what par_control() gives
# without arguments; `master`, of a node of a cluster, its connection to the session and the socket of that,
# list(id, socket), and `ends_programs`, whether it ends what elements have started when it ends itself;
# `h5_caches`, caches of matrices in files, by their id; of a worker that stands ready between runs `settings`,
# its options and the like as last looked at, and `attached`, list(search, names): the search path without what the last
# run needed, and what of it attach_names() was given.
the <- new.env(parent = emptyenv())
the$last <- NULL
the$plan <- NULL
the$fork_warned <- FALSE
the$pool <- NULL
the$pool_told <- FALSE
the$code_loaded <- character()
the$handles <- NULL
the$wires <- new.env(parent = emptyenv())
the$reading <- FALSE
the$abandoned <- list()
the$abandoned_remote <- list()
the$h5_about <- NULL
the$pid <- NULL
the$delayedarray <- NULL
the$servers <- list()
the$analyses <- new.env(parent = emptyenv())
the$names <- new.env(parent = emptyenv())
the$tables <- list()
the$method_homes <- NULL
the$worker_homes <- list(class = character(), package = character(), paths = character())
the$attached_names <- NULL
the$places <- character()
the$defaults <- NULL
the$master <- NULL
the$ends_programs <- FALSE
the$h5_caches <- new.env(parent = emptyenv())
the$settings <- NULL
the$attached <- NULL

# What calls the user's function is called from here, as base R's lapply() is from its own namespace: do.call(), eval(),
# get() and match.fun(), given as that function, look from there on, and find nothing of this package or of its imports.
# Before base R they come past the variables of the call alone.
caller_home <- new.env(parent = .BaseNamespaceEnv)

# The same for a function that another one returns, with the variables of that: `maker(...)` ends by this. It can use no
# function of the package but those among these variables.
from_base <- function(fun) {
  env <- environment(fun)
  parent.env(env) <- .BaseNamespaceEnv
  fun
}
