# Arguments are checked once, where the user hands them over. A failed check names the argument,
# says what it must be and shows what it was. One that has not been given is a bad value, too: missing() knows it
# through all functions that have handed it on.

# For what may be anything.
check_given <- function(x, argument, must, call = rlang::caller_env()) {
  if (missing(x)) {
    abort_argument(argument, x, must, call = call)
  }
}

# As match.fun() in the function that was given `f`, by whose caller names of functions are looked up.
check_function <- function(f, argument, call = rlang::caller_env()) {
  must <- "a function, or the name of one"
  check_given(f, argument, must, call)
  if (is.function(f)) return(f)
  tryCatch(rlang::eval_bare(base::call("match.fun", as.name(argument)), call), error = function(e) {
    abort_argument(argument, f, must, call = call)
  })
}

check_count <- function(x, argument, min = 1, max = .Machine$integer.max, null = FALSE, call = rlang::caller_env()) {
  if (null && is.null(x)) {
    return(NULL)
  }
  if (!is_whole(x) || x < min || x > max) {
    must <- if (is_whole(x) && x > min) {
      sprintf("a whole number of at most %d", max)
    } else if (min == 1) {
      "a positive whole number"
    } else {
      sprintf("a whole number of at least %s", format_number(min, 15L))
    }
    abort_argument(argument, x, paste0(must, or_null(null)), call = call)
  }
  as.integer(x)
}

check_seconds <- function(x, argument, zero = FALSE, call = rlang::caller_env()) {
  if (!is_number(x) || x < 0 || (x == 0 && !zero)) {
    sign <- if (zero) "a" else "a positive"
    abort_argument(argument, x, paste(sign, "number of seconds or `Inf`"), call = call)
  }
  as.double(x)
}

# A size of fewer than `least` bytes was meant in another unit.
check_bytes <- function(x, argument, zero = FALSE, null = FALSE, least = 0, call = rlang::caller_env()) {
  if (null && is.null(x)) {
    return(NULL)
  }
  bytes <- if (missing(x)) NA else parse_bytes(x)
  if (is.na(bytes) || bytes < 0 || (bytes == 0 && !zero)) {
    sign <- if (zero) "a" else "a positive"
    must <- paste0(sign, " number of bytes or a size such as \"2GB\" or \"512MiB\"", if (null) ", or `NULL`")
    abort_argument(argument, x, must, call = call)
  }
  if (bytes < least) {
    number <- format_number(bytes, 15L)
    advice <- sprintf("A number alone is one of bytes: `\"%sMB\"` are megabytes, `\"%sGB\"` gigabytes.", number, number)
    abort_argument(argument, x, paste("at least", format_bytes(least)), call = call, advice = if (!is.character(x)) advice)
  }
  bytes
}

check_flag <- function(x, argument, null = FALSE, call = rlang::caller_env()) {
  if (null && is.null(x)) {
    return(NULL)
  }
  if (!is.logical(x) || length(x) != 1L || is.na(x)) {
    must <- if (null) "`TRUE`, `FALSE` or `NULL`" else "`TRUE` or `FALSE`"
    abort_argument(argument, x, must, call = call)
  }
  isTRUE(x)
}

# The first choice is the default: an argument still equal to all of `choices` was not given.
check_choice <- function(x, argument, choices, call = rlang::caller_env()) {
  if (!missing(x) && identical(x, choices)) {
    return(choices[[1L]])
  }
  if (missing(x) || !is.character(x) || length(x) != 1L || !x %in% choices) {
    must <- if (length(choices) == 1L) quoted(choices) else paste("one of", quoted(choices, "or"))
    abort_argument(argument, x, must, call = call)
  }
  as.vector(x)
}

check_subset <- function(x, argument, choices, call = rlang::caller_env()) {
  if (!is.character(x) || length(x) == 0L || !all(x %in% choices)) {
    abort_argument(argument, x, paste("one or more of", quoted(choices, "and")), call = call)
  }
  choices[choices %in% x]
}

check_seed <- function(x, argument, call = rlang::caller_env()) {
  if (is.logical(x) && length(x) == 1L && !is.na(x)) {
    return(isTRUE(x))
  }
  if (!is_whole(x) || abs(x) > .Machine$integer.max) {
    must <- sprintf("`TRUE`, `FALSE` or a whole number up to %d", .Machine$integer.max)
    abort_argument(argument, x, must, call = call)
  }
  as.integer(x)
}

check_priority <- function(x, argument, call = rlang::caller_env()) {
  if (is.null(x)) {
    return(NULL)
  }
  if (!is.numeric(x) || is.object(x) || anyNA(x)) {
    must <- "`NULL` or numbers without `NA`, one per element"
    abort_argument(argument, x, must, call = call)
  }
  as.double(x)
}

# As many as are counted on any machine: RG_BUDGET_MAX in src/budget.h.
cores_most <- 4096L

# `FALSE` is `NULL`: it takes back what an option says.
check_core_budget <- function(x, argument, call = rlang::caller_env()) {
  if (is.null(x) || (is.logical(x) && length(x) == 1L && !is.na(x))) {
    return(if (isTRUE(x)) TRUE)
  }
  if (!is_whole(x) || x < 1 || x > cores_most) {
    must <- sprintf("`TRUE`, `FALSE`, `NULL` or a number of cores from 1 to %d", cores_most)
    abort_argument(argument, x, must, call = call)
  }
  as.integer(x)
}

check_string <- function(x, argument, null = FALSE, call = rlang::caller_env()) {
  if (null && is.null(x)) {
    return(NULL)
  }
  if (missing(x) || !is.character(x) || length(x) != 1L || is.na(x)) {
    abort_argument(argument, x, paste0("a single string", or_null(null)), call = call)
  }
  as.vector(x)
}

is_number <- function(x) {
  !missing(x) && is.numeric(x) && !is.object(x) && length(x) == 1L && !is.na(x)
}

is_whole <- function(x) {
  is_number(x) && is.finite(x) && x == round(x)
}

# How many elements `x` has, as its class may say by a method for length().
check_length <- function(x, argument, call = rlang::caller_env()) {
  n <- length(x)
  if (!is_number(n) || n < 0 || is.infinite(n)) {
    advice <- sprintf(
      "length() of it is %s. Mend that method, or give what it stands for as a plain vector or list.",
      describe_value(n)
    )
    abort_argument(argument, x, "something whose length() is a number of elements", call = call, advice = advice)
  }
  floor(n)
}

or_null <- function(null) {
  if (null) " or `NULL`" else ""
}

quoted <- function(x, last = NULL) {
  x <- encodeString(x, quote = "\"")
  if (is.null(last) || length(x) < 2L) {
    return(paste(x, collapse = ", "))
  }
  paste(paste(x[-length(x)], collapse = ", "), last, x[[length(x)]])
}

# kB, MB, ... are powers of 1000 and KiB, MiB, ... powers of 1024 (IEC 80000-13); a bare K, M, ...
# is a power of 1024, as in GNU coreutils, Docker and Slurm. NA when `x` is no size.
parse_bytes <- function(x) {
  if (is_number(x)) {
    return(as.double(x))
  }
  if (!is.character(x) || length(x) != 1L || is.na(x)) {
    return(NA_real_)
  }
  pattern <- "^\\s*([0-9]*\\.?[0-9]+(?:e[+]?[0-9]+)?|[0-9]+\\.)\\s*([kmgtp]?)(i?)(b?)\\s*$"
  if (!grepl(pattern, x, ignore.case = TRUE, perl = TRUE)) {
    return(if (grepl("^\\s*inf\\s*$", x, ignore.case = TRUE)) Inf else NA_real_)
  }
  # As text a number goes by the option `scipen`.
  part <- function(k) sub(pattern, sprintf("\\%d", k), x, ignore.case = TRUE, perl = TRUE)
  power <- match(tolower(part(2)), c("", "k", "m", "g", "t", "p")) - 1
  binary <- nzchar(part(3))
  if (power == 0 && binary) {
    return(NA_real_)
  }
  unit <- if (binary || !nzchar(part(4))) 1024 else 1000
  round(as.double(part(1)) * unit^power)
}

# What a message shows of a value: short, never the whole of it, and never an error.
describe_value <- function(x) {
  if (is.null(x)) {
    return("`NULL`")
  }
  if (is.object(x) || isS4(x)) {
    return(sprintf("an object of class %s", quoted(class(x)[[1L]])))
  }
  if (is.atomic(x) && length(dim(x)) > 1L) {
    kind <- if (is.matrix(x)) "matrix" else "array"
    return(sprintf("a %s %s of type %s", format_extents(dim(x)), kind, typeof(x)))
  }
  if (is.character(x) && length(x) == 1L && !is.na(x)) {
    return(encodeString(shorten(x, 40L), quote = "\""))
  }
  if (is.atomic(x) && length(x) == 1L) {
    return(sprintf("`%s`", if (is.double(x)) format_number(x, 15L) else format(x)))
  }
  if (is.function(x)) {
    return("a function")
  }
  if (is.environment(x)) {
    return("an environment")
  }
  if (is.language(x)) {
    return(sprintf("the expression `%s`", shorten(rlang::as_label(x), 40L)))
  }
  describe_vector(x)
}

# What a value is to be, whatever it holds.
describe_template <- function(x) {
  extents <- if (is.array(x)) sprintf("an array of %s", format_extents(dim(x))) else "a vector"
  sprintf("%s of type %s and length %.0f", extents, typeof(x), length(x))
}

describe_vector <- function(x) {
  names <- c(double = "numeric", list = "list", pairlist = "list")
  type <- if (typeof(x) %in% names(names)) names[[typeof(x)]] else typeof(x)
  what <- if (type == "list") "a list" else sprintf("%s %s vector", article(type), type)
  if (!is.vector(x) && !is.atomic(x) && !is.pairlist(x)) {
    return(sprintf("%s %s", article(type), type))
  }
  if (is.character(x) && length(x) > 1L && length(x) <= 4L && !anyNA(x)) {
    return(shorten(sprintf("c(%s)", quoted(x)), 60L))
  }
  missing <- if (is.atomic(x) && anyNA(x)) " with `NA`" else ""
  sprintf("%s of length %.0f%s", what, length(x), missing)
}

article <- function(word) {
  if (grepl("^[aeiou]", word)) "an" else "a"
}

# A string that cannot be converted, escaped: nchar() and others would fail on it.
convertible <- function(x) if (!validEnc(x) || Encoding(x) == "bytes") encodeString(x) else x

shorten <- function(x, width) {
  x <- sub("\n.*", "...", enc2utf8(convertible(x)))
  if (nchar(x) <= width) x else paste0(substr(x, 1L, width - 3L), "...")
}

# Whether an argument of a call is left empty, as in x[, 1].
is_empty_argument <- function(written) identical(written, quote(expr = ))
