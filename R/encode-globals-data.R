# Variables that no code is seen to use: those that data names, and those that stand for something else on a worker that
# does not have them. Part of globals_find() in R/encode-globals.R.
#
# As with keys, see R/log-search.R, each word in data that is the name of a variable may be meant as that. What is sent
# for nothing costs time and memory, which hashing does not, so that here it is asked what there would be without: for
# most names an error that says what to do, but for those of R or of a package another value.

# All variables of the places, by their names, `place`, where they are, and `ours`, whether that is the workspace;
# whether they are words in data, whether they mask something, whether that is of the same kind, whether they are small,
# NA for what was not looked at, and whether it was decided that they are sent. For kinds nothing is evaluated: an
# active binding, and what is not evaluated yet, count as data.
globals_doubt <- function(found) {
  found$name <- as.character(unlist(found$names))
  found$place <- rep(found$places, lengths(found$names))
  found$ours <- seq_along(found$name) <= length(found$names[[1L]])
  found$words <- found$alike <- found$sent <- logical(length(found$name))
  found$small <- rep(NA, length(found$name))
  beyond <- rep(lapply(found$places, parent.env), lengths(found$names))
  found$masks <- vapply(seq_along(beyond), function(k) exists(found$name[[k]], envir = beyond[[k]]), NA)
  for (k in which(found$masks)) {
    is_function <- has_function(found$place[[k]], found$name[[k]])
    found$alike[[k]] <- is_function != is.null(find_home(found$name[[k]], beyond[[k]], "function"))
  }
  found$index <- search_index(found$name, 0L)
}

# Notes the words in these strings, and in the levels of factors.
globals_words <- function(found, objects) {
  index <- found$index
  strings <- lapply(objects, function(x) if (is.factor(x)) attr(x, "levels") else x)
  at <- .Call(ffi_encode_words, strings, index$words, index$slots, index$longest, index$odd)
  if (length(at) > 0L) found$words[index$at[at]] <- TRUE
}

# Which of these objects hold words. Long vectors are data.
are_words <- function(objects) {
  types <- vapply(objects, typeof, "")
  strings <- which(types == "character")
  factors <- which(types == "integer")
  factors <- factors[vapply(objects[factors], is.object, NA)]
  factors <- factors[vapply(objects[factors], is.factor, NA)]
  strings <- strings[vapply(objects[strings], function(x) length(unclass(x)), 0L) <= words_most]
  factors <- factors[vapply(objects[factors], function(x) length(attr(x, "levels")), 0L) <= words_most]
  hold <- logical(length(objects))
  hold[c(strings, factors)] <- TRUE
  hold
}

words_most <- 10000L

# Symbols in calls that are data.
globals_named <- function(found, symbols) {
  for (k in seq_along(found$places)) {
    for (name in intersect(symbols, found$names[[k]])) globals_add(found, name, found$places[[k]])
  }
}

# Adds what is sent of all these, and what that needs. `partly`: what has not been looked into may need any of them.
globals_decide <- function(found) {
  partly <- found$left <= 0
  found$left <- globals_work
  while (length(new <- globals_wanted(found, partly)) > 0L) {
    found$sent[new] <- TRUE
    for (k in new) globals_add(found, found$name[[k]], found$place[[k]])
    globals_drain(found)
    partly <- partly || found$left <= 0
  }
}

# A string in code counts as a whole, as in sapply(x, "f"), and only where it is the name of a function; where code
# looks variables up by their names every string and symbol of it may be one.
globals_wanted <- function(found, partly) {
  in_code <- found$name %in% found$strings
  spoken <- found$words | (found$looks & (in_code | found$name %in% found$symbols))
  known <- found$sent | (found$ours & found$name %in% names(found$variables))
  Filter(function(k) {
    name <- found$name[[k]]
    place <- found$place[[k]]
    (spoken[[k]] && (found$looks || found$masks[[k]])) || (found$masks[[k]] && (partly || found$alike[[k]])) ||
      ((spoken[[k]] || in_code[[k]]) && has_function(place, name)) ||
      ((spoken[[k]] || found$masks[[k]]) && globals_is_small(found, k))
  }, which((spoken | in_code | found$masks) & !known))
}

globals_is_small <- function(found, k) {
  if (is.na(found$small[[k]])) found$small[[k]] <- is_small(found$name[[k]], found$place[[k]])
  found$small[[k]]
}

# Whether a variable may be sent for nothing: it has few bytes or is a function, is not evaluated for it, and needs no
# package.
is_small <- function(name, place) {
  found <- variables_of(place, name)
  value <- found$values[[1L]]
  if (found$lazy || (found$active && !identical(place, globalenv()))) {
    return(FALSE)
  }
  if (is.function(value)) {
    return(is.primitive(value) || is_unpackaged(value))
  }
  bytes <- if (!is_long(value)) bounded_bytes(value)
  needed <- if (!is.null(bytes)) .Call(ffi_encode_spaces, list(bytes))
  !is.null(bytes) && all(sub("package:", "", needed, fixed = TRUE) %in% default_packages())
}

# Whether it has surely more bytes, which can be told of most data at a glance: to begin to write it takes far longer.
is_long <- function(x) {
  columns <- if (typeof(x) == "list") unclass(x) else list(x)
  length(columns) <= 100L && any(vapply(columns, function(column) {
    typeof(column) %in% c("double", "character") && !is.object(column) && length(column) > small_code / 8
  }, NA))
}

# Of the workspace, what is_small() has left.
globals_large <- function(found) {
  setdiff(found$name[found$small %in% FALSE & found$ours], names(found$variables))
}
