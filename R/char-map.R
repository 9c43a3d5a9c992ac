# A character vector as its distinct strings and an index into them. Strings are told apart by
# address (src/string-index.h), so that equal texts in different encodings stay different.

char_map <- function(x) {
  if (missing(x) || !is.character(x) || isS4(x)) {
    abort_argument("x", x, "a character vector")
  }
  .Call(ffi_char_map, x)
}

map2char <- function(map) {
  if (missing(map) || !inherits(map, "char_map")) {
    abort_argument("map", map, "made by `char_map()`")
  }
  .Call(ffi_char_map_expand, map)
}

compress_chars <- function(l, limit = 0L, compress_altreps = c("if_allocated", "yes", "no"),
                           class = character()) {
  check_given(l, "l", "a character vector, or a list of such vectors and lists")
  if (!is_number(limit) || limit < 0) {
    abort_argument("limit", limit, "the least length of a vector to be compressed")
  }
  choices <- c("if_allocated", "yes", "no")
  compress_altreps <- check_choice(compress_altreps, "compress_altreps", choices)
  check_class(class)
  .Call(ffi_compress_chars, l, as.double(limit), compress_altreps, class, 1)
}

uncompress_chars <- function(l, class = character()) {
  check_given(l, "l", "what `compress_chars()` has returned")
  check_class(class)
  .Call(ffi_uncompress_chars, l, class)
}

check_class <- function(x, call = rlang::caller_env()) {
  if (!is.character(x) || anyNA(x)) {
    abort_argument("class", x, "names of classes", call = call)
  }
}

# Called from C, where attributes cannot be read or set all at once.

attributes_pairlist <- function(x) {
  as.pairlist(attributes(x))
}

with_attributes <- function(x, value) {
  attributes(x) <- as.list(value)
  x
}
