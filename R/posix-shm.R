# Vectors in named POSIX shared memory, for programs that hand them on by name. The maps of this
# package do not need it.

copy2shm <- function(x, name, overwrite = FALSE, copy = TRUE) {
  unit <- if (missing(x)) NA else .Call(ffi_posix_shm_unit, type_code(x))
  if (is.na(unit) || isS4(x)) {
    abort_argument("x", x, "a logical, integer, double, complex or raw vector that is not S4")
  }
  check_posix_name(name, "name")
  check_flag(overwrite, "overwrite")
  check_flag(copy, "copy")
  length <- length(unclass(x))
  size <- as.double(length) * unit
  failure <- .Call(ffi_posix_shm_write, name, x, overwrite)
  if (!is.null(failure)) {
    signal_error(error_shm_write(name, size, failure, sys.call()))
  }
  structure(
    list(
      name = name, type = type_code(x), length = as.double(length), size = size,
      attributes = attributes_pairlist(x), copy = copy
    ),
    class = "shm_obj"
  )
}

allocate_from_shm <- function(obj, copy = obj$copy) {
  if (missing(obj) || !inherits(obj, "shm_obj")) {
    abort_argument("obj", obj, "made by `copy2shm()`")
  }
  check_posix_name(obj$name, "obj$name")
  check_flag(copy, "copy")
  damage <- shm_obj_damage(obj)
  if (!is.null(damage)) {
    .Call(ffi_posix_shm_unlink, obj$name)
    abort_argument("obj", obj, paste("as `copy2shm()` made it:", damage))
  }
  x <- .Call(ffi_posix_shm_read, obj$name, obj$type, obj$length, obj$size, copy)
  if (is.list(x)) {
    signal_error(error_shm_read(obj, x, sys.call()))
  }
  if (is.null(obj$attributes)) x else with_attributes(x, obj$attributes)
}

# What is wrong with the description of an object, NULL if nothing is.
shm_obj_damage <- function(obj) {
  if (!is_whole(obj$type) || !is_whole(obj$length) || !is_whole(obj$size)) {
    return("its type, length and size are whole numbers")
  }
  unit <- .Call(ffi_posix_shm_unit, as.integer(obj$type))
  if (is.na(unit)) {
    return(sprintf("%.0f is no type of a vector that can be shared", obj$type))
  }
  if (obj$length < 0 || obj$length * unit != obj$size) {
    return(sprintf(
      "%.0f elements of %d bytes are not %.0f bytes", obj$length, unit, as.double(obj$size)
    ))
  }
  NULL
}

error_shm_write <- function(name, size, failure, call) {
  what <- sprintf("put %s into the shared memory object %s", format_bytes(size), quoted(name))
  if (isTRUE(failure$available < size)) {
    what <- sprintf("%s, where %s are available", what, format_bytes(failure$available))
    advice <- "Remove objects that nobody needs, or make the file system larger (Linux: /dev/shm)."
  } else if (identical(failure$errno, errno_exists) && !is_folder_name(name)) {
    advice <- "`overwrite = TRUE` replaces an object that is there."
  } else if (!is_portable_name(name, 253L)) {
    advice <- "A name is \"/\" and up to 253 characters without another \"/\", and not \"/.\" or \"/..\"."
  } else {
    advice <- NULL
  }
  error_posix(what, failure, advice, call)
}

error_shm_read <- function(obj, failure, call) {
  what <- sprintf("read %s from the shared memory object %s", format_bytes(obj$size),
    quoted(obj$name))
  advice <- if (failure$operation == "shm_open") "Each object can be read once."
  error_posix(what, failure, advice, call)
}

check_posix_name <- function(x, argument, call = rlang::caller_env()) {
  x <- check_string(x, argument, call = call)
  if (!nzchar(x)) {
    abort_argument(argument, x, "a name such as \"/results\"", call = call)
  }
}

# The number of EEXIST on every system that R runs on with POSIX shared memory.
errno_exists <- 17L

# `most`: characters after the first "/".
is_portable_name <- function(name, most) {
  grepl("^/[^/]+$", name) && !is_folder_name(name) && nchar(name, "bytes") <= most + 1L
}

is_folder_name <- function(name) {
  basename(name) %in% c(".", "..")
}

# As C code counts the types of R: 10, 13, 14, 15 and 24 can be shared.
type_code <- function(x) {
  codes <- c(logical = 10L, integer = 13L, double = 14L, complex = 15L, raw = 24L)
  code <- codes[typeof(x)]
  if (is.na(code)) 0L else unname(code)
}

# Every vector of a list of lists that copy2shm() takes; objects are named `name_prefix` and a
# number. If one cannot be made none is left.
vectors2shm <- function(l, limit = 2L, share_altreps = c("no", "yes", "if_allocated"), copy = TRUE,
                        name_prefix, class = character()) {
  choices <- c("no", "yes", "if_allocated")
  share_altreps <- check_choice(share_altreps, "share_altreps", choices)
  check_class(class)
  made <- character()
  on.exit(for (name in made) .Call(ffi_posix_shm_unlink, name))
  take <- function(x) {
    if (is_list_to_walk(x)) {
      return(map_elements(x, take))
    }
    if (isS4(x) || type_code(x) == 0L || length(unclass(x)) < limit ||
      !wants_altrep(x, share_altreps)) {
      return(x)
    }
    obj <- copy2shm(x, paste0(name_prefix, length(made) + 1L), copy = copy)
    made <<- c(made, obj$name)
    class(obj) <- c(class, class(obj))
    obj
  }
  result <- take(l)
  on.exit()
  result
}

shm2vectors <- function(l, class = character()) {
  check_class(class)
  take <- function(x) {
    if (is.list(x) && all(inherits(x, c(class, "shm_obj"), which = TRUE) > 0L)) {
      allocate_from_shm(x)
    } else if (is_list_to_walk(x)) {
      map_elements(x, take)
    } else {
      x
    }
  }
  take(l)
}

wants_altrep <- function(x, mode) {
  kind <- .Call(ffi_posix_shm_altrep, x)
  kind == 0L || mode == "yes" || (kind == 2L && mode == "if_allocated")
}

is_list_to_walk <- function(x) {
  is.list(x) && !isS4(x) && !inherits(x, "shm_obj")
}

# Classes of lists have methods for `[[<-` that check what comes in.
map_elements <- function(x, f) {
  class <- attr(x, "class")
  attr(x, "class") <- NULL
  for (i in seq_along(x)) {
    # An empty argument, as a list of formals has, cannot be passed on.
    if (!identical(x[[i]], quote(expr = ))) {
      x[i] <- list(f(x[[i]]))
    }
  }
  attr(x, "class") <- class
  x
}
