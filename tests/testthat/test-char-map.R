set.seed(28)
detritus <- detritus_snapshot()

expect_round_trip <- function(x) {
  map <- char_map(x)
  expect_s3_class(map, "char_map", exact = TRUE)
  expect_named(map, c("chars", "idx", "attributes"))
  plain <- x
  attributes(plain) <- NULL
  expect_identical(map$chars[map$idx], plain)
  expect_identical(map2char(map), x)
  expect_identical(map$chars, unique(plain))
  expect_type(map$idx, "integer")
}

test_that("distinct strings come in the order of their first appearance", {
  map <- char_map(c("b", "a", "b", NA, "a", NA, ""))
  expect_identical(map$chars, c("b", "a", NA, ""))
  expect_identical(map$idx, c(1L, 2L, 1L, 3L, 2L, 3L, 4L))
  expect_null(map$attributes)
})

test_that("every vector comes back as it was", {
  withr::local_preserve_seed()
  expect_round_trip(character())
  expect_round_trip(NA_character_)
  expect_round_trip("a")
  expect_round_trip(c(NA, as.character(stats::runif(1e4)), NA))
  # just around the size of a piece, and of the table when it grows
  for (n in c(2047:2050, 4095:4098, 8193)) expect_round_trip(as.character(seq_len(n)))
  expect_round_trip(sample(c(as.character(1:1000), NA), 1e5, replace = TRUE))
  expect_round_trip(as.character(1:1e5)) # made on demand by R
  expect_round_trip(rep(sprintf("%d", 1:3e5), 2))
})

test_that("strings may lie in memory as they like", {
  withr::local_preserve_seed()
  set.seed(3)
  again <- function(x) c(x, NA, sample(x, 6e5, replace = TRUE), "")
  short <- sprintf("short %d", 1:2e5) # side by side
  expect_round_trip(again(short))
  expect_round_trip(again(sample(short, 3e4))) # with others between them
  long <- sprintf("%d %s", 1:20000, strrep("x", 5000)) # 100 MB, each in a place of its own
  expect_round_trip(again(long))
  expect_round_trip(again(c(short, long)))
  expect_round_trip(again(c(long, short)))
})

test_that("attributes come back, and are kept as a pairlist", {
  x <- stats::setNames(letters, LETTERS)
  expect_identical(map2char(char_map(x)), x)
  expect_type(char_map(x)$attributes, "pairlist")
  x <- matrix(c("a", "b", "a", "b"), 2, dimnames = list(c("r", "s"), NULL))
  expect_identical(map2char(char_map(x)), x)
  x <- structure(c("a", "a"), class = "mine", extra = 1:3)
  expect_identical(map2char(char_map(x)), x)
  expect_true(is.object(map2char(char_map(x))))
})

test_that("equal texts in different encodings are different strings", {
  latin <- "caf\xe9"
  Encoding(latin) <- "latin1"
  utf8 <- enc2utf8(latin)
  bytes <- latin
  Encoding(bytes) <- "bytes"
  x <- c(latin, utf8, bytes, latin)
  map <- char_map(x)
  expect_length(map$chars, 3L)
  expect_identical(Encoding(map2char(map)), Encoding(x))
})

test_that("long vectors of few strings need an index of whole numbers only", {
  map <- char_map(rep(c("a", "b"), 1e6))
  expect_length(map$chars, 2L)
  expect_identical(map$idx, rep(1:2, 1e6))
})

test_that("maps that are damaged, or no maps, are refused", {
  expect_error(char_map(1), class = "regatta_error_argument")
  expect_error(char_map(asS4(structure("a", class = "s4"))), class = "regatta_error_argument")
  expect_error(map2char("a"), class = "regatta_error_argument")
  map <- char_map(c("a", "b"))
  for (idx in list(c(1L, 3L), c(0L, 1L), c(NA, 1L), c(1, 2.5e9), -1)) {
    damaged <- map
    damaged$idx <- idx
    expect_error(map2char(damaged), "damaged")
  }
  expect_error(map2char(structure(list(), class = "char_map")), "damaged")
  # An index of doubles, as bettermc makes it for long vectors, is as good.
  map$idx <- c(2, 1)
  expect_identical(map2char(map), c("b", "a"))
})

test_that("character vectors anywhere in a list are compressed and come back", {
  objects <- list(
    globalenv(), letters, list(structure(list(), class = "mine")), matrix(letters, 2),
    list(array(letters, c(2, 2, 13)), list(NULL, list(LETTERS, 1:3, quote(a + b)))),
    data.frame(x = letters, y = 1:26), NULL, 1, formals(function(a, b = "x") 1) |> as.list(),
    asS4(structure("a", class = "s4")), list(sum, globalenv(), "a"), expression(a)
  )
  for (x in objects) {
    expect_identical(uncompress_chars(compress_chars(x)), x)
  }
  small <- compress_chars(list(a = letters, b = list(c = "x")))
  expect_s3_class(small$a, "char_map")
  expect_s3_class(small$b$c, "char_map")
})

test_that("what is compressed can be chosen", {
  x <- list("a", letters)
  expect_identical(compress_chars(x, limit = 2)[[1L]], "a")
  expect_s3_class(compress_chars(x, limit = 2)[[2L]], "char_map")
  lazy <- list(as.character(1:10 + 0L))
  expect_identical(compress_chars(lazy, compress_altreps = "no"), lazy)
  expect_s3_class(compress_chars(lazy, compress_altreps = "yes")[[1L]], "char_map")
  marked <- compress_chars(x, class = c("one", "two"))
  expect_s3_class(marked[[1L]], c("one", "two", "char_map"), exact = TRUE)
  expect_identical(uncompress_chars(marked, class = "three"), marked)
  expect_identical(uncompress_chars(marked, class = "two"), x)
  # one that is there already is left alone
  twice <- compress_chars(marked)
  expect_identical(twice, marked)
  expect_error(compress_chars(x, limit = -1), class = "regatta_error_argument")
  expect_error(compress_chars(x, class = NA), class = "regatta_error_argument")
  expect_error(compress_chars(x, compress_altreps = 1), class = "regatta_error_argument")
})

test_that("compressing changes no object in place", {
  x <- list(letters, list(LETTERS))
  y <- x
  compress_chars(x)
  expect_identical(x, y)
})

test_that("vectors of mostly distinct strings are left alone where that is asked for", {
  many <- as.character(1:5000)
  few <- rep(c("a", "b"), 2500)
  got <- .Call(ffi_compress_chars, list(many, few), 0, "yes", character(), 0.6)
  expect_identical(got[[1L]], many)
  expect_s3_class(got[[2L]], "char_map")
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
