# Datasets written in parallel: workers compute and compress blocks of whole chunks, this process puts them
# into the file in their order.

h5_fill <- function(path, name, dim, f, type = "float64", chunk = NULL, level = 3L, shuffle = TRUE,
                    memory = "64MiB", .on = getOption("regatta.on"),
                    .control = getOption("regatta.control", par_control())) {
  h5_needed()
  f <- check_function(f, "f")
  h5_fill_dataset("h5_fill", path, name, dim, f, type, chunk, level, shuffle, memory, .on, .control)
}

# On behalf of the verb that has called it.
h5_fill_dataset <- function(verb, path, name, dim, f, type, chunk, level, shuffle, memory, .on, .control,
                            call = rlang::caller_env()) {
  path <- h5_path(path, call)
  name <- h5_name(name, call = call)
  plan <- h5_plan(dim, type, chunk, level, shuffle, call)
  if (!dir.exists(dirname(path))) {
    abort_argument("path", path, "a file in a folder that exists", call = call)
  }
  memory <- check_bytes(memory, "memory", call = call)
  user <- rlang::error_call(call)
  .control <- check_control(.control, 1L, call = user)
  if (.control$errors != "stop") {
    abort_argument("errors", .control$errors, "\"stop\": a dataset is written as a whole or not at all", call = call)
  }
  to <- h5_fill_target(path)
  # By the time it is complete it has another name.
  if (to$new) on.exit(unlink(to$file))
  h5_fill_call(to, call, "ffi_h5_create", name, plan$dim, plan$chunk, plan$type, plan$level, plan$shuffle)
  done <- FALSE
  on.exit(if (!done && !to$new) h5_invoke("ffi_h5_remove", path, name), add = TRUE)
  blocks <- h5_fill_blocks(plan, memory)
  stream <- stream_new(blocks, h5_encoder(f, plan, verb), list(), verb, user, 2^28, .on, .control)
  for (block in blocks) {
    at <- (c(block$rows[[1L]], block$columns[[1L]]) - 1) / plan$chunk
    count <- ceiling(c(diff(block$rows) + 1, diff(block$columns) + 1) / plan$chunk)
    h5_fill_call(to, call, "ffi_h5_put", name, at, count, par_next(stream))
  }
  h5_fill_finish(to, call)
  done <- TRUE
  h5_matrix(path, name)
}

# A new file gets its name when it is complete. Until then it stands beside, under one that nobody looks for.
h5_fill_target <- function(path) {
  new <- !file.exists(path)
  file <- if (new) tempfile(paste0(".", basename(path), "-"), dirname(path), ".part") else path
  list(path = path, file = file, new = new)
}

# What is wrong with the file beside is told of the one that was asked for.
h5_fill_call <- function(to, call, entry, ...) {
  value <- h5_ask(entry, to$file, ..., call = call)
  if (inherits(value, "h5_failure")) {
    value[] <- lapply(value, function(text) gsub(to$file, to$path, text, fixed = TRUE))
    signal_error(error_h5(value, rlang::error_call(call)))
  }
  value
}

h5_fill_finish <- function(to, call) {
  if (!to$new) {
    return()
  }
  why <- if (file.exists(to$path)) {
    "somebody else has made a file of that name meanwhile"
  } else if (!suppressWarnings(file.rename(to$file, to$path))) {
    "the complete file cannot be renamed"
  }
  if (!is.null(why)) {
    failure <- list(
      message = sprintf("cannot create %s: %s", to$path, why), path = to$path, name = "", chunk = "", filter = "",
      advice = ""
    )
    signal_error(error_h5(failure, rlang::error_call(call)))
  }
}

h5_write <- function(x, path, name, type = NULL, chunk = NULL, level = 3L, shuffle = TRUE, memory = "64MiB",
                     .on = getOption("regatta.on"), .control = getOption("regatta.control", par_control())) {
  h5_needed()
  check_given(x, "x", "a matrix of numbers")
  if (is.data.frame(x)) {
    abort_argument("x", x, "a matrix of numbers", advice = "`as.matrix()` makes one of columns that are numbers.")
  }
  if (length(dim(x)) != 2L || (is.matrix(x) && !(is.numeric(x) || is.logical(x)))) {
    abort_argument("x", x, "a matrix of numbers")
  }
  check_bits(x, "x", "a matrix of numbers")
  # One of the package Matrix, or one in another file, says so by its elements.
  if (is.null(type)) {
    one <- if (is_h5_matrix(x)) h5_r_type(x) else if (is.matrix(x)) typeof(x) else "double"
    type <- if (one %in% c("integer", "logical")) "int32" else "float64"
  }
  written <- h5_fill_dataset(
    "h5_write", path, name, dim(x), h5_part_function(x), type, chunk, level, shuffle, memory, .on, .control
  )
  if (!is.null(dimnames(x))) dimnames(written) <- dimnames(x)
  written
}

h5_part_function <- function(x) {
  force(x)
  function(rows, columns) as.matrix(x[rows, columns, drop = FALSE])
}

h5_written_types <- c("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")

h5_plan <- function(dim, type, chunk, level, shuffle, call = rlang::caller_env()) {
  extents <- function(x, argument, least) {
    ok <- !missing(x) && is.numeric(x) && length(x) == 2L && !anyNA(x) && all(x >= least & x == trunc(x) & x < 2^53)
    if (!ok) abort_argument(argument, x, "two whole numbers, of rows and columns", call = call)
    as.double(x)
  }
  dim <- extents(dim, "dim", 0)
  chunk <- if (is.null(chunk)) c(256, 256) else extents(chunk, "chunk", 1)
  chunk <- pmax(1, pmin(dim, chunk)) # HDF5 has none that is larger than its dataset
  if (prod(chunk) * 8 >= 2^32) {
    abort_argument("chunk", chunk, "less than 4 GiB, the most that HDF5 allows", call = call)
  }
  if (!is_whole(level) || level < 0 || level > 9) {
    abort_argument("level", level, "a whole number from 0 (not compressed) to 9", call = call)
  }
  list(
    dim = dim, chunk = chunk, type = check_choice(type, "type", h5_written_types, call = call),
    level = as.integer(level), shuffle = check_flag(shuffle, "shuffle", call = call)
  )
}

# Blocks of whole chunks, of at most so much memory if a chunk is not more: columns of chunks side by side,
# or, where one column is too much, parts of it.
h5_fill_blocks <- function(plan, memory) {
  if (any(plan$dim == 0)) {
    return(list())
  }
  chunks <- max(1, memory %/% (8 * prod(plan$chunk)))
  down <- ceiling(plan$dim[[1L]] / plan$chunk[[1L]])
  step <- plan$chunk * c(min(down, chunks), max(1, chunks %/% down))
  ranges <- lapply(1:2, function(k) {
    from <- seq(1, plan$dim[[k]], by = step[[k]])
    Map(c, from, pmin(from + step[[k]] - 1, plan$dim[[k]]))
  })
  blocks <- lapply(ranges[[2L]], function(columns) {
    lapply(ranges[[1L]], function(rows) list(rows = rows, columns = columns))
  })
  blocks <- unlist(blocks, recursive = FALSE)
  names(blocks) <- vapply(blocks, function(block) {
    sprintf("%.0f-%.0f, %.0f-%.0f", block$rows[[1L]], block$rows[[2L]], block$columns[[1L]], block$columns[[2L]])
  }, "")
  blocks
}

h5_encoder <- function(f, plan, verb) {
  force(f)
  force(plan)
  from <- if (verb == "h5_write") c("x[rows, columns]", "be") else c("f", "return")
  function(block) {
    rows <- seq(block$rows[[1L]], block$rows[[2L]])
    columns <- seq(block$columns[[1L]], block$columns[[2L]])
    value <- f(rows, columns)
    dim <- c(length(rows), length(columns)) + 0
    fits <- length(value) == prod(dim) && (is.null(dim(value)) || identical(dim(value) + 0, dim))
    check_bits(value, from[[1L]], "numbers", NULL)
    if (!(is.numeric(value) || is.logical(value)) || !fits) {
      stop(sprintf("`%s` must %s a matrix of numbers, %d x %d, not %s", from[[1L]], from[[2L]], length(rows),
        length(columns), describe_value(value)), call. = FALSE)
    }
    chunks <- h5_invoke("ffi_h5_encode", value, dim, plan$chunk, plan$type, plan$level, plan$shuffle)
    if (inherits(chunks, "h5_failure")) signal_error(error_h5(chunks))
    chunks
  }
}
