# Calls of every kind with a garbage collection at every STEP-th allocation (environment variable
# GCTORTURE_STEP, default 1, in the session and in its workers): a value that C code forgot to
# protect is gone, and the result differs or the process dies. What comes back is compared with what
# the same call returned without torture. FILTER=regex chooses cases by name.

library(regatta)

step <- as.integer(Sys.getenv("GCTORTURE_STEP", "1"))
if (is.na(step) || step < 1L) stop("GCTORTURE_STEP must be a positive whole number")

control <- function(...) {
  par_control(
    workers = 2L, progress = FALSE, dump = "no", stdout = "drop", messages = "drop",
    warnings = "drop", seed = 1L, shm_min = 0, ...
  )
}

values <- list(
  double = c(1.5, NA, Inf), integer = 1:3, sequence = seq_len(1e5), logical = c(TRUE, NA),
  complex = c(1i, 2 + 0i), raw = as.raw(0:255), text = c("a", NA, "\u00e9", "a"),
  empty = character(), null = NULL, list = list(1, list("b", 2L), NULL),
  frame = data.frame(x = runif(20), y = letters[1:20], z = factor(letters[1:20])),
  matrix = matrix(runif(50), 5, dimnames = list(letters[1:5], NULL)),
  date = as.Date("2013-01-01") + 0:9, formula = y ~ x, language = quote(f(x, y = 2))
)

cases <- list(
  values = function() par_lapply(values, identity, .control = control()),
  copied = function() par_lapply(values, identity, .control = control(copy = TRUE)),
  vapply = function() par_vapply(1:4, function(i) i + 0.5, 0, .control = control()),
  mapply = function() par_mapply(function(a, b) paste(a, b), 1:3, 3:1, .control = control()),
  random = function() par_lapply(1:3, function(i) runif(3), .control = control()),
  output = function() {
    par_lapply(1:2, function(i) {
      cat("out\n")
      message("said")
      i
    }, .control = control())
  },
  errors = function() {
    found <- suppressWarnings(
      par_lapply(1:3, function(i) if (i == 2L) stop("on purpose") else i,
        .control = control(errors = "collect"))
    )
    lapply(found, function(x) if (inherits(x, "condition")) class(x) else x)
  },
  call = function() par_value(par_call(sum(1:10), .control = control())),
  shared = function() {
    shared <- shm_share(values, min = 0)
    list(shm_copy(shared), unserialize(serialize(shared, NULL)), sort(shared$text), rev(shared$double))
  },
  array = function() {
    x <- shm_array(c(3, 4), dimnames = list(letters[1:3], NULL))
    par_lapply(1:4, function(j) x[, j] <- j + 1:3, .control = control())
    x["b", -1] <- 0
    x[x > 6] <- 9
    list(shm_copy(x), x + 1, t(x), as.vector(unserialize(serialize(x, NULL))))
  },
  fill = function() as.vector(shm_fill(50, function(range) sqrt(range), .control = control())),
  closure = function() {
    make <- function(data, text) {
      force(data)
      force(text)
      function(i) list(data[i], text)
    }
    f <- make(runif(5) * 0 + 1:5, rep(c("a", "b"), 4))
    regatta:::closure_unpack(regatta:::closure_pack(list(f, f), min = 0)$bytes)[[2]](2)
  },
  # what a node of a cluster does, in this process
  node = function() {
    loop <- regatta:::map_loop(values, function(x) {
      cat("out\n")
      warning("said")
      x
    }, list())
    job <- list(
      loop = loop, control = control(), seed = c(10407L, 1:6), share = 1L, variables = list()
    )
    regatta:::cluster_worker_begin(regatta:::closure_pack(job)$bytes, NULL, 1L, "token")
    on.exit(regatta:::cluster_worker_end("token"))
    elements <- as.double(seq_along(values))
    reply <- regatta:::cluster_worker_batch(elements, rep(1L, length(values)), "token")
    lapply(reply$records, function(record) {
      list(record$index, .Call(regatta:::ffi_cluster_decode, record$payload, FALSE))
    })
  },
  # names of variables and of classes in what is sent, as C code looks for them
  names = function() {
    data <- list("one of two", c(three = 1), iconv("caf\u00e9", "UTF-8", "latin1"), factor("x"), asS4(1))
    names <- enc2utf8(c("two", "three", "caf\u00e9", "factor", "nowhere"))
    call <- function(name, ...) .Call(get(name, asNamespace("regatta")), ...)
    slots <- call("ffi_encode_table", names)
    bytes <- serialize(data, NULL, xdr = FALSE)
    list(
      call("ffi_encode_words", list(bytes, names), names, slots, max(nchar(names, "bytes")), match("three", names)),
      call("ffi_encode_names", list(bytes, bytes), names, FALSE),
      call("ffi_encode_spaces", list(bytes, bytes)), call("ffi_encode_classes", data, names)
    )
  },
  # A log that is written, read and read again, one value in a file of its own. The keys of a call are made by R code, of
  # which a collection at each allocation would make hours.
  checkpoint = function() {
    folder <- tempfile("log-")
    on.exit(unlink(folder, recursive = TRUE))
    rg <- function(name, ...) get(name, asNamespace("regatta"))(...)
    key <- function(digit) strrep(digit, 32L)
    log <- rg("log_open", folder, TRUE)
    payloads <- list(serialize(list(facts = list(), value = letters), NULL, xdr = FALSE), as.raw(1:9))
    told <- list(
      rg("log_append", log, "call", key("0"), 0, list(n = 3)), rg("log_append", log, "value", key("1"), 1, list(), 1:3),
      rg("log_append_bytes", log, "value", c(key("2"), key("3")), c(2, 3), payloads),
      rg("log_append", log, "value", key("4"), 4, list(), list(1:5e4 + 0.5, letters), 2^20), rg("log_sync", log)
    )
    rg("log_close", log)
    log <- rg("log_open", folder, FALSE)
    on.exit(rg("log_close", log), add = TRUE, after = FALSE)
    list(told, log$records, log$damaged, rg("log_read", log, seq_len(nrow(log$records))))
  },
  counter = function() {
    counter <- shm_counter(2)
    with_shm_lock(shm_lock(), shm_add(counter, 3))
  },
  stream = function() {
    stream <- par_stream(1:5, function(i) letters[i], .control = control())
    values <- character()
    while (par_more(stream)) values <- c(values, par_next(stream))
    values
  }
)

tortured <- function(case) {
  old <- gctorture2(step)
  on.exit(gctorture2(old))
  case()
}

check_one <- function(name) {
  cases[[name]]() # workers tell once of packages that they load
  wanted <- cases[[name]]()
  got <- tortured(cases[[name]])
  same <- identical(got, wanted)
  cat(sprintf("gctorture: %-8s %s\n", name, if (same) "ok" else "DIFFERS"))
  same
}

chosen <- grep(Sys.getenv("FILTER"), names(cases), value = TRUE)
if (length(chosen) == 0L) stop("FILTER chooses none of the cases ", toString(names(cases)))
same <- vapply(chosen, check_one, NA)
if (!all(same)) quit(status = 1L)
cat("gctorture: every result as without\n")
