# Packages of what is sent to workers that do not inherit the session: there, from where the session has them, in the
# same version, or it is told.

withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

# Two versions of a package, each in a library of its own: functions that call one which is not exported and has the
# name of one of R's.
version_at <- function(version, says = version, lib = tempfile("lib-"), on_load = "NULL") {
  source <- install_at(lib, "rgpkg", version, c("export(pub, make)", "S3method(format, rgclass)"), c(
    sprintf("scale <- function(x) paste(\"%s\", x)", says), "pub <- function(i) scale(i)",
    "make <- function(i) structure(list(i), class = \"rgclass\")", "format.rgclass <- function(x, ...) scale(x[[1L]])",
    sprintf(".onLoad <- function(...) %s", on_load)
  ))
  list(lib = lib, source = source)
}

# Returns where its sources are.
install_at <- function(lib, package, version, namespace, code) {
  at <- file.path(tempfile("src-"), package)
  dir.create(lib, showWarnings = FALSE)
  dir.create(file.path(at, "R"), recursive = TRUE)
  writeLines(c(paste("Package:", package), paste("Version:", version), "Title: T"), file.path(at, "DESCRIPTION"))
  writeLines(namespace, file.path(at, "NAMESPACE"))
  writeLines(code, file.path(at, "R", "code.R"))
  out <- system2(file.path(R.home("bin"), "R"),
    c("CMD", "INSTALL", "--no-docs", "--no-test-load", "--no-byte-compile", "-l", shQuote(lib), at),
    stdout = TRUE, stderr = TRUE, env = "R_TESTS="
  )
  if (!is.null(attr(out, "status"))) stop(paste(out, collapse = "\n"))
  at
}
old <- version_at("1.0")
new <- version_at("2.0")

clusters <- list(local = cluster_local(1L), own = cluster_local(1L, start = "sequential"), psock = cluster_start(1L))
if (.Call(regatta:::ffi_crypto_available) && dir.exists("/proc")) {
  clusters$agent <- shell_cluster_start(1)
}
places <- lapply(clusters, function(cl) if (inherits(cl, "cluster")) cl else cl$cluster)
here <- function(...) par_control(progress = FALSE, dump = "no", seed = FALSE, ...)
map <- function(..., on) unlist(par_lapply(..., .on = on, .control = here()))
in_workspace <- function(f) {
  environment(f) <- globalenv()
  f
}

test_that("a namespace and an attached package are found among what was serialised, and nothing else is", {
  find <- function(...) {
    streams <- lapply(list(...), serialize, NULL, xdr = FALSE)
    .Call(regatta:::ffi_encode_spaces, streams)
  }
  expect_identical(find(tools::file_ext, 1, baseenv()), "tools")
  expect_identical(find(list(stats::sd, tools::file_ext), new.env(parent = as.environment("package:stats"))),
    c("stats", "tools", "package:stats"))
  expect_identical(find("tools", quote(tools::x), c(249L, 0L, 2L, 9L, 5L, 0L, 0L)), character())
  many <- lapply(1:20, function(i) tools::file_ext)
  expect_identical(do.call(find, many), rep("tools", 20L))
  expect_identical(.Call(regatta:::ffi_encode_spaces, list(raw(), raw(9))), character())
  whole <- serialize(tools::file_ext, NULL, xdr = FALSE)
  others <- Filter(function(size) {
    any(.Call(regatta:::ffi_encode_spaces, list(whole[seq_len(size)])) != "tools")
  }, seq_along(whole))
  expect_identical(others, integer())
})

test_that("functions of a package are those of the session's, from its library", {
  loadNamespace("rgpkg", lib.loc = new$lib)
  withr::defer(unloadNamespace("rgpkg"))
  pub <- get("pub", asNamespace("rgpkg"))
  name <- in_workspace(function(i) rgpkg::pub(i))
  given <- in_workspace(function(i, g) g(i))
  class <- in_workspace(function(x) format(x))
  objects <- lapply(1:2, get("make", asNamespace("rgpkg")))
  expected <- c("2.0 1", "2.0 2")
  ways <- list(
    function(on) map(1:2, pub, on = on), function(on) map(1:2, name, on = on),
    function(on) map(1:2, given, g = pub, on = on), function(on) map(objects, class, on = on),
    function(on) map(list(pub, pub), in_workspace(function(g) g(1)), on = on)[c(1, 1)]
  )
  for (place in names(places)) {
    for (k in seq_along(ways)) {
      cl <- if (place == "local") local_pool(1L) else places[[place]]
      expect_no_warning(got <- ways[[k]](cl))
      expect_identical(got, if (k == 5L) rep("2.0 1", 2L) else expected, label = paste(place, k))
    }
  }
})

test_that("workers that have loaded another version say so once in a call, and go on", {
  loadNamespace("rgpkg", lib.loc = old$lib)
  withr::defer(unloadNamespace("rgpkg"))
  pub <- get("pub", asNamespace("rgpkg"))
  for (f in list(pub, in_workspace(function(i) rgpkg::pub(i)))) {
    for (place in c("psock", "own")) {
      # From the test before.
      said <- list()
      withCallingHandlers(
        expect_identical(map(1:4, f, on = places[[place]]), paste("2.0", 1:4)),
        regatta_warning_package = function(w) {
          said <<- c(said, list(w))
          invokeRestart("muffleWarning")
        }
      )
      expect_length(said, 1L)
      text <- "version 2.0 of package rgpkg, this session version 1.0, from"
      expect_match(conditionMessage(said[[1L]]), text, fixed = TRUE)
      fields <- said[[1L]][c("package", "version", "found")]
      expect_identical(fields, list(package = "rgpkg", version = "1.0", found = "2.0"))
    }
  }
})

test_that("a package that a worker does not find is an error, or a warning where only methods are missed", {
  withr::local_envvar(PKGLOAD_PARENT_TEMPDIR = Sys.getenv("PKGLOAD_PARENT_TEMPDIR", NA)) # newer pkgload sets it
  skip_if_not_installed("pkgload")
  had_shims <- "devtools_shims" %in% search()
  pkgload::load_all(new$source, quiet = TRUE, attach = FALSE, helpers = FALSE, attach_testthat = FALSE)
  withr::defer({
    unloadNamespace("rgpkg")
    if (!had_shims) detach("devtools_shims", character.only = TRUE)
  })
  pub <- get("pub", asNamespace("rgpkg"))
  objects <- lapply(1:2, get("make", asNamespace("rgpkg")))
  psock <- cluster_start(1L)
  withr::defer(psock$stop())
  for (place in list(local_pool(1L), local_pool(1L, start = "sequential"), psock$cluster)) {
    expect_error(
      map(1:2, pub, on = place), "no package called .rgpkg.*needs package rgpkg; the session has it from its source"
    )
    expect_warning(got <- map(objects, in_workspace(function(x) format(x)), on = place),
      "cannot load package rgpkg", class = "regatta_warning_package")
    expect_identical(got, c("1", "2"))
  }
  # With the code that is installed.
  withr::local_libpaths(old$lib, action = "prefix")
  pool <- local_pool(1L)
  expect_warning(got <- map(1:2, in_workspace(function(i) rgpkg::pub(i)), on = pool),
    "use version 1.0 of package rgpkg as it is installed", class = "regatta_warning_package")
  expect_identical(got, c("1.0 1", "1.0 2"))
})

test_that("a worker that a signal ends while it loads a package costs nothing else; if all are ended that is told", {
  once <- withr::local_tempfile()
  always <- withr::local_tempfile()
  made <- version_at("1.0", on_load = sprintf(
    "if (file.exists(%s) || suppressWarnings(file.remove(%s))) tools::pskill(Sys.getpid(), 11L)",
    deparse(always), deparse(once)
  ))
  withr::defer(unlink(c(made$lib, dirname(made$source)), recursive = TRUE))
  loadNamespace("rgpkg", lib.loc = made$lib)
  withr::defer(unloadNamespace("rgpkg"))
  pool <- local_pool(2L)
  file.create(once)
  expect_identical(map(1:4, in_workspace(function(i) rgpkg::pub(i)), on = pool), paste("1.0", 1:4))
  expect_false(file.exists(once))
  file.create(always)
  expect_error(
    map(1:4, in_workspace(function(i) rgpkg::pub(i)), on = local_pool(2L)),
    "in a row ended before they began an element .signal 11 .SIGSEGV.*what the code needs.*R calls, innermost last",
    class = "regatta_error_start"
  )
})

test_that("a worker that would find another version first has the one of the session's library", {
  loadNamespace("rgpkg", lib.loc = new$lib)
  withr::defer(unloadNamespace("rgpkg"))
  withr::local_libpaths(old$lib, action = "prefix")
  for (start in c("forkserver", "sequential", "later")) {
    pool <- if (start == "later") local_pool(1L) else local_pool(1L, packages = "rgpkg", start = start)
    expect_no_warning(got <- map(1:2, in_workspace(function(i) rgpkg::pub(i)), on = pool))
    expect_identical(got, c("2.0 1", "2.0 2"))
  }
})

test_that("a package that is installed anew is told of to those who have loaded the one before, and new pools have it", {
  made <- version_at("1.0", "before")
  lib <- made$lib
  withr::defer(unlink(c(lib, dirname(made$source)), recursive = TRUE))
  loadNamespace("rgpkg", lib.loc = lib)
  withr::defer(unloadNamespace("rgpkg"))
  by_name <- in_workspace(function(i) rgpkg::pub(i))
  psock <- cluster_start(1L)
  withr::defer(psock$stop())
  standing <- list(with = local_pool(1L, packages = "rgpkg"), without = local_pool(1L), psock = psock$cluster)
  for (place in standing) expect_identical(map(1:2, by_name, on = place), c("before 1", "before 2"))
  unlink(dirname(version_at("1.0", "after", lib)$source), recursive = TRUE)
  # All have the one before.
  for (place in standing) expect_no_warning(expect_identical(map(1:2, by_name, on = place), c("before 1", "before 2")))
  expect_warning(got <- map(1:2, by_name, on = local_pool(1L)), "anew after this session has loaded it",
    class = "regatta_warning_package")
  expect_identical(got, c("after 1", "after 2"))
  unloadNamespace("rgpkg")
  loadNamespace("rgpkg", lib.loc = lib)
  for (place in standing) {
    expect_warning(got <- map(1:2, by_name, on = place), "version 1.0, was installed anew after workers have loaded it",
      class = "regatta_warning_package")
    expect_identical(got, c("before 1", "before 2"))
  }
  for (pool in list(local_pool(1L, packages = "rgpkg"), local_pool(1L))) {
    expect_no_warning(expect_identical(map(1:2, by_name, on = pool), c("after 1", "after 2")))
  }
})

test_that("other code of the same version from another library is told of, the same code is not", {
  made <- list(first = version_at("1.0", "first"), second = version_at("1.0", "second"))
  same <- withr::local_tempdir()
  file.copy(file.path(made$second$lib, "rgpkg"), same, recursive = TRUE, copy.date = TRUE)
  withr::defer(for (one in made) unlink(c(one$lib, dirname(one$source)), recursive = TRUE))
  by_name <- in_workspace(function(i) rgpkg::pub(i))
  from <- function(lib, code) {
    loadNamespace("rgpkg", lib.loc = lib)
    on.exit(unloadNamespace("rgpkg"))
    code
  }
  psock <- cluster_start(1L)
  withr::defer(psock$stop())
  for (place in list(local_pool(1L), local_pool(1L, start = "sequential"), psock$cluster)) {
    from(made$first$lib, expect_identical(map(1:2, by_name, on = place), c("first 1", "first 2")))
    warned <- from(made$second$lib, expect_warning(got <- map(1:2, by_name, on = place),
      "have loaded package rgpkg, version 1.0, from .*, this session has it from .*other cluster",
      class = "regatta_warning_package"))
    expect_identical(got, c("first 1", "first 2"))
    expect_match(conditionMessage(warned), made$first$lib, fixed = TRUE)
  }
  pool <- local_pool(1L)
  from(made$second$lib, expect_identical(map(1:2, by_name, on = pool), c("second 1", "second 2")))
  from(same, expect_no_warning(expect_identical(map(1:2, by_name, on = pool), c("second 1", "second 2"))))
})

test_that("what a package imports comes from where the session has it, not first from the package's own library", {
  lib <- file.path(withr::local_tempdir(), c("own", "site"))
  sources <- c(
    install_at(lib[[1L]], "rgunder", "2.0", "export(under)", "under <- function(i) paste(\"own\", i)"),
    install_at(lib[[2L]], "rgunder", "1.0", "export(under)", "under <- function(i) paste(\"site\", i)"),
    install_at(lib[[2L]], "rgmiddle", "1.0", c("import(rgunder)", "export(middle)"), "middle <- function(i) under(i)"),
    install_at(lib[[2L]], "rgover", "1.0", c("importFrom(rgmiddle, middle)", "export(over)"),
      "over <- function(i) middle(i)")
  )
  withr::defer(unlink(dirname(sources), recursive = TRUE))
  withr::local_libpaths(lib, "prefix")
  space <- loadNamespace("rgover")
  withr::defer(for (name in c("rgover", "rgmiddle", "rgunder")) unloadNamespace(name))
  psock <- cluster_start(1L)
  withr::defer(psock$stop())
  # As a value, which workers read with its namespace loaded.
  for (place in list(local_pool(1L), local_pool(1L, start = "sequential"), psock$cluster)) {
    expect_no_warning(expect_identical(map(1:2, get("over", space), on = place), c("own 1", "own 2")))
  }
})

test_that("the environment of an attached package is there without a word", {
  for (on in c("cluster_local(1L)", "cluster_local(1L, start = 'sequential')")) {
    code <- c(
      "suppressMessages(library(regatta))", "library(tools)", "f <- function(i) file_ext(i)",
      "environment(f) <- new.env(parent = as.environment('package:tools'))",
      sprintf("cat(unlist(par_lapply(c('a.b', 'c.d'), f, .on = %s)), '')", on)
    )
    expect_identical(session_prints(code, c("sh", "-c", "exec \"$0\" \"$@\" 2>&1")), "b d ", label = on)
  }
})

test_that("nothing is left behind", {
  parallel::stopCluster(clusters$local)
  parallel::stopCluster(clusters$own)
  clusters$psock$stop()
  if (!is.null(clusters$agent)) clusters$agent$stop()
  end_servers()
  unlink(c(old$lib, new$lib, dirname(c(old$source, new$source))), recursive = TRUE)
  expect_no_detritus(detritus)
})
