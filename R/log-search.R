# Words in what keys are made of: names of functions in lists and data frames, formulas and code that are data or text,
# columns. Code may take any of them for the name of a variable: with get(), do.call(), lm(), in ways that nobody can
# list. So each word that is the name of a variable counts as used, wherever it stands and whatever it is there for:
# `f` as the name of `f<-`, and as `..f`, too, and one that is no word, such as that of an operator, in any string that
# it is part of. Only names in the code of functions are told apart, see log-names.R.
#
# The variables are those of `places`: the workspace, lists that are attached, and the environments around functions,
# formulas and environments that are met.

# For a function that finds variables from `env` on. `shared` are environments that all elements have, as `met` of
# search_graph(), and `taken` the names of what the code that they are given to takes from objects.
new_search <- function(env, shared = list(), taken = character()) {
  search <- new.env(parent = emptyenv())
  search$shared <- shared
  search$taken <- taken
  search$places <- c(list(globalenv()), attached_lists())
  search$of_call <- FALSE # whether it is for what all elements have, and not for one of them
  search$addresses <- vapply(search$places, rlang::obj_address, "")
  search$around <- rep(FALSE, length(search$places)) # whether this is around an environment that is a value
  search$scan <- TRUE
  search$classes <- classes_of_packages()
  search_from(search, env)
  search_names(search)
  search$known <- new.env(parent = emptyenv()) # what words lead to in the places that there are at first
  search$start <- as.list.environment(search)
  search
}

search_from <- function(search, env, around = FALSE) {
  while (!is.null(search) && is_own_environment(env)) {
    at <- match(rlang::obj_address(env), search$addresses)
    if (is.na(at)) {
      at <- length(search$places) + 1L
      search$places[[at]] <- env
      search$addresses[[at]] <- rlang::obj_address(env)
      search$around[[at]] <- around
    } else if (search$around[[at]] >= around) {
      break
    }
    search$around[[at]] <- around
    env <- parent.env(env)
  }
}

# For an environment that is a value.
search_around <- function(search, env) {
  if (!is.null(search)) {
    search$whole <- union(search$whole, rlang::obj_address(env))
    search_from(search, parent.env(env), around = TRUE)
  }
}

# What registerS3method() was given for a generic in a place is found by no name.
search_table <- ".__S3MethodsTable__."

# Names of the places that all elements have are looked up once.
search_names <- function(search) {
  first <- search$start$indices
  new <- if (is.null(first)) search$places else search$places[-seq_along(search$start$places)]
  names <- setdiff(unlist(lapply(new, ls, all.names = TRUE, sorted = FALSE)), c("...", ".Random.seed", search_table))
  if (!is.null(first)) {
    names <- Filter(function(name) !any(vapply(search$start$places, exists, NA, x = name, inherits = FALSE)), names)
  }
  search$indices <- c(first, list(search_index(as.character(names), length(search$start$names))))
  search$names <- c(search$start$names, names)
  own <- search$places[vapply(search$places, function(place) !identical(place, globalenv()), NA)]
  search$tables <- Filter(function(place) exists(search_table, envir = place, inherits = FALSE), own)
}

# For search_bytes(): names, of which so many others come before.
search_index <- function(names, before) {
  replaces <- endsWith(names, "<-")
  words <- enc2utf8(c(names, substr(names[replaces], 1L, nchar(names[replaces]) - 2L)))
  list(
    words = words, at = before + c(seq_along(names), which(replaces)),
    odd = grep("[^A-Za-z0-9._\\x80-\\xff]", words, perl = TRUE, useBytes = TRUE),
    slots = .Call(ffi_encode_table, words), longest = max(0L, nchar(words, "bytes"))
  )
}

# Notes the words in what serialize() has made.
search_bytes <- function(search, bytes) {
  for (index in search$indices) {
    at <- .Call(ffi_encode_words, list(bytes), index$words, index$slots, index$longest, index$odd)
    if (length(at) > 0L) search$found[index$at[at]] <- TRUE
  }
}

# list(keys, variables): what make() returns, which makes keys with `search`, and by their names the keys of the
# variables that are named in what these are made of. It is made again where it has led to other places, whose names
# may be words in it. An active binding may make a new place each time: what finds nothing new is what there is.
search_through <- function(search, make) {
  last <- NULL
  for (pass in seq_len(search_passes)) {
    around <- search$around
    search$found <- logical(length(search$names))
    search$symbols <- character() # in code that evaluates code, for environments around others
    search$fields <- search$taken # from objects, one of which may be the workspace
    search$workspace <- FALSE
    search$whole <- character() # addresses of environments that are values: all of their variables count there
    search$graph <- list() # see search_met()
    search_methods(search)
    found <- list(keys = make(), variables = search_variables(search))
    now <- list(found, search_graph(search), unique(search$names))
    if (identical(search$around, around) || identical(now, last)) {
      return(found)
    }
    last <- now
    if (length(search$places) > length(around)) search_names(search)
  }
  signal_error(error_checkpoint_search(search_passes))
}

# Each finds at least one more environment in which names are looked up.
search_passes <- 100L

# S3 methods of these places are found by no name. Those of the workspace are known, see key_methods().
search_methods <- function(search) {
  places <- if (search$of_call) search$places[-1L] else search$places[-seq_along(search$start$places)]
  for (place in places) {
    dotted <- ls(envir = place, all.names = TRUE, pattern = ".[.].", sorted = FALSE)
    names <- Filter(function(name) has_function(place, name), dotted)
    search$found[search$names %in% workspace_methods(names, place)] <- TRUE
  }
}

# The keys of these values, by their names.
search_keys <- function(search, values) {
  vapply(stats::setNames(nm = names(values)), function(name) {
    search$part <- name
    key_of(values[[name]], search)
  }, "")
}

# Environments that were met while a key was made, that of `search$part`, and what is around them: see key_place().
search_met <- function(search, met, around) {
  part <- search$graph[[search$part]]
  search$graph[[search$part]] <- list(met = c(part$met, met), around = c(part$around, around))
}

# Which environments the parts have, what is around them and which of them are the same, as a key for each part. Parts
# are taken in the order of their names, so that a session in which all else is equal numbers them alike. `search$met`
# has the environments then, by what tells them apart.
search_graph <- function(search) {
  graph <- search$graph[sorted(as.character(names(search$graph)))]
  met <- c(search$shared, do.call(c, unname(lapply(graph, `[[`, "met"))))
  met <- met[!duplicated(names(met))]
  search$met <- met
  vapply(graph, function(part) rlang::hash(list(match(names(part$met), names(met)), part$around)), "")
}

# The values of variables have words, too.
search_variables <- function(search) {
  if (!any(search$found) && !any(search$around) && !search$workspace && length(search$tables) == 0L) {
    return(NULL)
  }
  keys <- around <- list()
  if (length(search$tables) > 0L) keys[[search_table]] <- search_key(search, search_table, search$tables)
  repeat {
    if (search$workspace) search$found[search$names %in% search$fields] <- TRUE
    words <- sorted(setdiff(search$names[search$found], names(keys)))
    symbols <- if (any(search$around)) setdiff(intersect(search$symbols, search$names), names(around))
    if (length(words) + length(symbols) == 0L) break
    for (name in words) keys[[name]] <- search_word(search, name)
    for (name in symbols) around[[name]] <- search_key(search, name, search$places[search$around])
  }
  keys <- c(unlist(keys), unlist(around))
  keys[!duplicated(paste(names(keys), keys)) & nzchar(keys)]
}

# The key of an element, with those of the variables that are named in it, and with which of its classes have methods.
# It begins with what the function of the map has: other elements do not have the places of this one.
search_element <- function(search, x) {
  if (is_closure(x)) {
    # What will be met need not be found first.
    search_from(search, environment(x))
    if (length(search$places) > length(search$start$places)) search_names(search)
  }
  found <- search_through(search, function() {
    search$part <- "0element"
    key_of(x, search)
  })
  graph <- if (length(search$graph) > 0L) search_graph(search)
  if (!identical(search$around, search$start$around)) list2env(search$start, search)
  classes <- classes_in(x, search$classes)
  if (length(classes) > 0L) graph <- c(as.list(graph), list(classes = classes))
  if (length(found$variables) + length(graph) > 0L) rlang::hash(c(found, graph)) else found$keys
}

# Whether keys of variables are those that all elements have.
search_is_plain <- function(search) {
  identical(search$around, search$start$around) && !any(search$addresses %in% search$whole)
}

# Elements that name the same variables are many.
search_word <- function(search, name) {
  if (!search_is_plain(search)) {
    return(search_key(search, name, search$places))
  }
  known <- search$known[[name]]
  if (is.null(known)) {
    before <- mget(c("found", "symbols", "fields", "workspace"), envir = search)
    search$found <- logical(length(before$found))
    search$symbols <- search$fields <- character()
    search$workspace <- FALSE
    known <- list(key = search_key(search, name, search$places), graph = search$graph[[name]], noted = list(
      found = which(search$found), symbols = search$symbols, fields = search$fields, workspace = search$workspace
    ))
    if (search_is_plain(search)) assign(name, known, envir = search$known)
    list2env(before, search)
  }
  search$graph[[name]] <- known$graph
  search$found[known$noted$found] <- TRUE
  search$symbols <- union(search$symbols, known$noted$symbols)
  search$fields <- union(search$fields, known$noted$fields)
  search$workspace <- search$workspace || known$noted$workspace
  known$key
}

# "" where none of the places has it.
search_key <- function(search, name, places) {
  homes <- Filter(function(place) {
    exists(name, envir = place, inherits = FALSE) && !rlang::obj_address(place) %in% search$whole
  }, places)
  search$part <- name
  keys <- vapply(homes, function(home) key_of(unname(key_named(home, name)), search), "")
  if (length(keys) > 0L) rlang::hash(sorted(keys)) else ""
}
