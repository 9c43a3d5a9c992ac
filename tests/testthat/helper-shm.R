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

random_atomic <- function(n = sample(c(0L, 1L, 5L, 9000L, 20000L), 1L)) {
  switch(sample.int(9L, 1L),
    runif(n), c(NA, NaN, Inf, -0)[sample.int(4L, n, TRUE)], sample.int(1000L, n, TRUE),
    sample(c(TRUE, FALSE, NA), n, TRUE), complex(real = runif(n), imaginary = runif(n)),
    as.raw(sample.int(255L, n, TRUE)), random_strings(n), seq_len(n),
    factor(sample(c(letters, NA), n, TRUE), exclude = NULL)
  )
}

random_value <- function(depth = 3L) {
  x <- if (depth == 0L || runif(1) < 0.5) {
    random_atomic()
  } else {
    switch(sample.int(4L, 1L),
      lapply(seq_len(sample(0:4, 1L)), function(i) random_value(depth - 1L)),
      data.frame(n = runif(12000), s = I(random_strings(12000)), d = Sys.Date() + seq_len(12000)),
      matrix(runif(20000), 100, dimnames = list(sprintf("r%d", 1:100), NULL)),
      list(a = random_value(depth - 1L), f = function(x) x, e = quote(a + b), NULL)
    )
  }
  if (runif(1) < 0.3 && !is.object(x)) {
    attr(x, "note") <- random_atomic()
  }
  x
}
