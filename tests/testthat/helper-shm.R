# Random values of every kind that can be shared, for tests of the way there and back.

random_strings <- function(n) {
  latin1 <- iconv("caf\u00e9", "UTF-8", "latin1")
  bytes <- rawToChar(as.raw(c(0xff, 0x41)))
  Encoding(bytes) <- "bytes"
  pool <- c(
    NA, "", "a", "b", "\u00e9t\u00e9", "\u65e5\u672c", latin1, bytes, strrep("x", 5000),
    sprintf("id%d", seq_len(sample(c(3L, n), 1L)))
  )
  pool[sample.int(length(pool), n, replace = TRUE)]
}

random_atomic <- function(longest) {
  n <- sample(c(0L, 1L, 5L, longest %/% 2L, longest), 1L)
  switch(sample.int(9L, 1L),
    runif(n), c(NA, NaN, Inf, -0)[sample.int(4L, n, TRUE)], sample.int(1000L, n, TRUE),
    sample(c(TRUE, FALSE, NA), n, TRUE), complex(real = runif(n), imaginary = runif(n)),
    as.raw(sample.int(255L, n, TRUE)), random_strings(n), seq_len(n),
    factor(sample(c(letters, NA), n, TRUE), exclude = NULL)
  )
}

# `longest`: the most elements of a vector.
random_value <- function(depth = 3L, longest = 20000L) {
  x <- if (depth == 0L || runif(1) < 0.5) {
    random_atomic(longest)
  } else {
    rows <- longest %/% 2L
    inner <- function() random_value(depth - 1L, longest)
    switch(sample.int(4L, 1L),
      lapply(seq_len(sample(0:4, 1L)), function(i) inner()),
      data.frame(
        n = runif(rows), s = I(random_strings(rows)), d = as.Date("2020-02-03") + seq_len(rows)
      ),
      matrix(runif(100L * (longest %/% 100L)), 100L, dimnames = list(sprintf("r%d", 1:100), NULL)),
      list(a = inner(), f = function(x) x, e = quote(a + b), NULL)
    )
  }
  if (runif(1) < 0.3 && !is.object(x)) {
    attr(x, "note") <- random_atomic(longest)
  }
  x
}
