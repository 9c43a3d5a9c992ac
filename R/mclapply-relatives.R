# mcmapply(), mcMap() and pvec() with the arguments that they have in parallel. They take every other
# setting of mclapply() as well, by its name.

mcmapply <- function(FUN, ..., MoreArgs = NULL, SIMPLIFY = TRUE, USE.NAMES = TRUE,
                     mc.preschedule = TRUE, mc.set.seed = TRUE, mc.silent = FALSE,
                     mc.cores = getOption("mc.cores", 2L), mc.cleanup = TRUE,
                     affinity.list = NULL) {
  FUN <- check_function(FUN, "FUN")
  parts <- split_settings(list(...))
  given <- c(parts$settings, list(
    mc.preschedule = mc.preschedule, mc.set.seed = mc.set.seed, mc.silent = mc.silent,
    mc.cleanup = mc.cleanup
  ))
  given["affinity.list"] <- list(affinity.list)
  if (!missing(mc.cores)) given$mc.cores <- mc.cores
  mcmapply_over(FUN, parts$dots, MoreArgs, SIMPLIFY, USE.NAMES, given, sys.call())
}

mcMap <- function(f, ...) {
  f <- check_function(f, "f")
  parts <- split_settings(list(...))
  # As parallel's mcMap(), which is silent.
  given <- list(mc.set.seed = TRUE, mc.silent = TRUE)
  given[names(parts$settings)] <- parts$settings
  # As there `...` goes to mcmapply().
  more <- parts$dots[["MoreArgs"]]
  use_names <- if ("USE.NAMES" %in% names(parts$dots)) parts$dots[["USE.NAMES"]] else TRUE
  dots <- parts$dots[!rlang::names2(parts$dots) %in% c("MoreArgs", "USE.NAMES")]
  mcmapply_over(f, dots, more, FALSE, use_names, given, sys.call())
}

mcmapply_over <- function(FUN, dots, more, SIMPLIFY, USE.NAMES, given, call) {
  check_flag(USE.NAMES, "USE.NAMES", call = call)
  check_more_args(more, call = call)
  if (length(dots) == 0L) {
    return(list())
  }
  lengths <- mapply_lengths(dots, call)
  n <- max(lengths)
  if (n > 0L && min(lengths) == 0L) {
    stop(simpleError(sprintf(
      "argument %d to be mapped over has no elements, while the longest has %d",
      which.min(lengths), n
    ), call))
  }
  names <- if (USE.NAMES) mapply_names(dots, n, call)
  dots <- Map(as_mappable, dots, lengths)
  force_around(FUN, list(dots, more))
  one <- mapply_caller(FUN, dots, more)
  values <- mclapply_over(seq_len(n), one, given, call)
  if (USE.NAMES) names(values) <- names
  failed <- any(vapply(values, inherits, NA, "try-error"))
  if (isFALSE(SIMPLIFY) || n == 0L || failed) {
    values
  } else {
    simplify2array(values, higher = identical(SIMPLIFY, "array"))
  }
}

# The record of a run keeps these two functions with what they were made from, which is not the
# result. FUN sees a call as in mapply() and lapply(): with names in place of the data.
mapply_caller <- function(FUN, dots, more) {
  force(list(FUN, more))
  pick <- mapply_picker(lengths(dots))
  further <- element_calls(more, quote(more))
  is_code <- vapply(more, is.language, NA)
  further[is_code] <- more[is_code]
  from_base(function(i, scene) {
    picked <- pick(i)
    value <- NULL
    do.call(delayedAssign, list("value", as.call(c(forceAndCall, length(picked), quote(FUN), picked, further))))
    scene$depth <- sys.nframe()
    value
  })
}

# Further arguments stay what they are, promises that only FUN forces: `at` are the numbers of those of the user's, by
# their names, NULL if all are.
pvec_caller <- function(`*FUN*`, `*v*`, `*pieces*`, `*at*`, ...) {
  FUN <- `*FUN*`
  v <- `*v*`
  pieces <- `*pieces*`
  at <- `*at*`
  further <- if (is.null(at)) list(quote(...)) else lapply(at, function(k) as.name(sprintf("..%d", k)))
  call <- as.call(c(quote(FUN), quote(piece), further))
  from_base(function(k, scene) {
    piece <- if (is.null(pieces)) v else v[seq.int(pieces$from[[k]], pieces$to[[k]])]
    value <- NULL
    do.call(delayedAssign, list("value", call))
    scene$depth <- sys.nframe()
    value
  })
}

# Settings of mclapply() among arguments that are otherwise mapped over.
split_settings <- function(dots) {
  is_setting <- names(dots) %in% mclapply_arguments()
  if (length(is_setting) == 0L) is_setting <- rep(FALSE, length(dots))
  list(settings = dots[is_setting], dots = dots[!is_setting])
}

pvec <- function(v, FUN, ..., mc.set.seed = TRUE, mc.silent = FALSE,
                 mc.cores = getOption("mc.cores", 2L), mc.cleanup = TRUE) {
  call <- sys.call()
  FUN <- check_function(FUN, "FUN")
  if (missing(v) || !is.vector(v)) {
    abort_v(v, call)
  }
  force_around(FUN, list(v))
  names <- names(substitute(list(...)))[-1L]
  is_setting <- names %in% mclapply_arguments()
  settings <- stats::setNames(lapply(which(is_setting), function(k) ...elt(k)), names[is_setting])
  at <- if (any(is_setting)) stats::setNames(which(!is_setting), names[!is_setting])
  given <- c(settings, list(
    mc.set.seed = mc.set.seed, mc.silent = mc.silent, mc.cleanup = mc.cleanup
  ))
  if (missing(mc.cores)) mc.cores <- mclapply_cores()
  given$mc.cores <- check_cores(mc.cores, call)
  # Without a seed a piece then begins with the session's numbers, whoever takes it.
  if (is.null(given$mc.preschedule)) given$mc.preschedule <- FALSE
  n <- length(v)
  whole <- given$mc.cores == 1L || n == 0L
  pieces <- if (!whole) cut_evenly(n, given$mc.cores)
  values <- mclapply_over(
    seq_len(max(1L, length(pieces$from))), pvec_caller(FUN, v, pieces, at, ...), given, call
  )
  if (whole) {
    return(values[[1L]])
  }
  result <- do.call(c, unname(values))
  if (length(result) != n) {
    warning(simpleWarning(sprintf(
      "the pieces of `v` have %.0f elements and FUN has returned %.0f for them", as.double(n),
      as.double(length(result))
    ), call))
  }
  result
}

# A vector with attributes is described by these, which nobody sees by its type and length.
abort_v <- function(v, call) {
  others <- if (!missing(v)) setdiff(names(attributes(v)), c("names", if (is.object(v)) "class"))
  advice <- if (length(others) > 0L && (is.atomic(v) || is.list(v))) {
    sprintf("It has %s.", paste0("`", others, "`", collapse = ", "))
  }
  must <- "a vector without attributes other than names"
  abort_argument("v", v, must, call = call, advice = advice)
}

# The first and the last element of up to `pieces` pieces of about equal length.
cut_evenly <- function(n, pieces) {
  pieces <- min(n, pieces)
  size <- rep(n %/% pieces, pieces) + (seq_len(pieces) <= n %% pieces)
  to <- cumsum(size)
  list(from = to - size + 1, to = to)
}
