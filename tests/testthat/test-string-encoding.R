detritus <- detritus_snapshot()

# Text as readLines() gives it, in the encoding of the locale and not marked.
native_text <- function(bytes) {
  Encoding(bytes) <- "unknown"
  bytes
}

locale_of <- function(set) {
  known <- tolower(gsub("-", "", suppressWarnings(system2("locale", "-a", stdout = TRUE))))
  wanted <- c(utf8 = "\\.utf8$", latin1 = "\\.iso88591$|^[a-z]+_[a-z]+$", latin9 = "iso885915")[[set]]
  found <- suppressWarnings(system2("locale", "-a", stdout = TRUE))[grepl(wanted, known)]
  for (name in found) {
    withr::local_locale(LC_CTYPE = name)
    info <- l10n_info()
    if (set == "utf8" && info[["UTF-8"]] || set == "latin1" && info[["Latin-1"]] || set == "latin9") {
      return(name)
    }
  }
  skip(paste("no locale with", set))
}

# What a session in one locale gets back from a node in another one that hands on what it was sent, and
# what it reads itself, by all routes: as the code points that the text has for whoever got it.
travel <- function(session_locale, node_locale, bytes) {
  fault_run(function(node_locale, bytes) {
    cluster <- withr::with_envvar(
      c(LC_ALL = node_locale), parallel::makePSOCKcluster(1L)
    )
    on.exit(parallel::stopCluster(cluster))
    text <- rawToChar(bytes)
    Encoding(text) <- "unknown"
    file <- tempfile()
    writeBin(c(bytes, charToRaw("\n")), file)
    look <- function(v) list(Encoding(v[1]), charToRaw(enc2utf8(v[1])), v[1] == "gr\u00fcn")
    environment(look) <- globalenv()
    few <- text
    many <- rep(text, 1e4)
    quiet <- par_control(progress = FALSE, shm_min = 0)
    sent <- function(x) par_lapply(1L, function(i) look(x), .on = cluster, .control = quiet)[[1L]]
    list(
      locale = c(l10n_info()[["UTF-8"]], l10n_info()[["Latin-1"]]),
      r = parallel::clusterCall(cluster, look, few)[[1L]],
      few = sent(few), many = sent(many), shared = sent(shm_share(many)),
      handle = parallel::clusterCall(cluster, look, shm_share(many))[[1L]],
      back = look(par_lapply(1L, function(i) few, .on = cluster, .control = quiet)[[1L]]),
      back_many = look(par_lapply(1L, function(i) many, .on = cluster, .control = quiet)[[1L]]),
      read = look(par_lapply(1L, function(i) readLines(file), .on = cluster, .control = quiet)[[1L]]),
      read_r = look(parallel::clusterCall(cluster, readLines, file)[[1L]]),
      here = look(par_lapply(1L, function(i) few, .control = quiet)[[1L]]),
      here_many = look(par_lapply(1L, function(i) many, .control = quiet)[[1L]]),
      plain = look(few)
    )
  }, list(node_locale, bytes), env = c(LC_ALL = session_locale))$value
}

utf8 <- as.raw(c(0x67, 0x72, 0xc3, 0xbc, 0x6e))
latin1 <- as.raw(c(0x67, 0x72, 0xfc, 0x6e))
right <- list(utf8, TRUE)

test_that("text of a UTF-8 session that is not marked is read right in a C locale, as R sends it", {
  got <- travel(locale_of("utf8"), "C", utf8)
  expect_identical(got$locale, c(TRUE, FALSE))
  for (route in c("r", "few", "many", "shared", "handle")) {
    expect_identical(got[[route]], list("UTF-8", utf8, TRUE), info = route)
  }
  for (route in c("back", "back_many")) expect_identical(got[[route]][-1L], right, info = route)
  # Within one locale nothing is marked that was not.
  expect_identical(got$here, got$plain)
  expect_identical(got$here_many, got$plain)
  # What a node in the C locale reads has no encoding: its bytes come as they are.
  expect_identical(got$read[-1L], got$read_r[-1L])
})

test_that("and the reverse: a session in a C locale, a node in UTF-8", {
  got <- travel("C", locale_of("utf8"), utf8)
  expect_identical(got$locale, c(FALSE, FALSE))
  expect_identical(got$read_r, list("UTF-8", utf8, TRUE))
  expect_identical(got$read, got$read_r)
  expect_identical(got$here, got$plain)
})

test_that("Latin-1 text is read right in UTF-8, and the reverse", {
  got <- travel(locale_of("latin1"), locale_of("utf8"), latin1)
  expect_identical(got$locale, c(FALSE, TRUE))
  for (route in c("r", "few", "many", "shared", "handle", "back", "back_many")) {
    expect_identical(got[[route]][-1L], right, info = route)
  }
  got <- travel(locale_of("utf8"), locale_of("latin1"), utf8)
  for (route in c("r", "few", "many", "shared", "handle", "back", "back_many")) {
    expect_identical(got[[route]][-1L], right, info = route)
  }
})

test_that("text of other locales is translated as R does", {
  # Latin-9: 0xa4 is the euro sign.
  got <- travel(locale_of("latin9"), locale_of("utf8"), as.raw(c(0x35, 0xa4)))
  for (route in c("r", "few", "many", "shared", "handle")) {
    expect_identical(got[[route]][[2L]], as.raw(c(0x35, 0xe2, 0x82, 0xac)), info = route)
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
