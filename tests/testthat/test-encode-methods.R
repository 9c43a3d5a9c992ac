# Methods of packages that are loaded in the session and not attached, on workers that do not inherit it. Package grid
# is in every R, registers methods of generics of base for its units, and no R process loads it by itself.

detritus <- detritus_snapshot()
loadNamespace("grid")
nodes <- cluster_start(1L)
here <- function(...) par_control(workers = 1L, progress = FALSE, dump = "no", seed = FALSE, ...)

# As in a forked worker, on fresh workers.
expect_as_forked <- function(X, FUN) {
  environment(FUN) <- globalenv()
  forked <- par_lapply(X, FUN, .control = here())
  expect_identical(par_lapply(X, FUN, .on = local_pool(1L), .control = here()), forked)
  expect_identical(par_lapply(X, FUN, .on = nodes$cluster, .control = here()), forked)
  forked
}

test_that("methods for the classes of elements are there", {
  got <- expect_as_forked(list(grid::unit(1:3, "cm")), function(x) {
    list(as.character(x[2]), length(rep(x, 2)), "grid" %in% loadedNamespaces())
  })
  expect_identical(got, list(list("2cm", 6L, TRUE)))
})

test_that("methods for what is in the surroundings of a function, and for classes that code names, are there", {
  f <- local({
    unit <- grid::unit(4, "npc")
    function(i) as.character(unit)
  })
  expect_identical(par_lapply(1, f, .on = local_pool(1L), .control = here()), list("4npc"))
  got <- expect_as_forked(1, function(i) {
    as.character(structure(list(list(1, NULL, 1L)), class = c("unit", "unit_v2")))
  })
  expect_identical(got, list("1cm"))
})

test_that("an S4 object has the methods of its class", {
  loadNamespace("stats4")
  object <- methods::new(methods::getClass("summary.mle", where = asNamespace("stats4")))
  got <- expect_as_forked(list(object), function(x) utils::capture.output(methods::show(x))[[1L]])
  expect_identical(got, list("Maximum likelihood estimation"))
})

test_that("workers load no package whose classes they are not sent", {
  # Kept source has all names of this file.
  has_loaded <- utils::removeSource(function(x) any(startsWith(loadedNamespaces(), "gri")))
  environment(has_loaded) <- globalenv()
  got <- par_lapply(list(1:3, "a", list(2)), has_loaded, .on = local_pool(1L), .control = here())
  expect_identical(got, list(FALSE, FALSE, FALSE))
})

test_that("names are found among the strings of what was serialised, and nowhere else", {
  find <- function(x, names) .Call(regatta:::ffi_encode_names, list(serialize(x, NULL, xdr = FALSE)), names, FALSE)
  names <- c("unit", "gTree", "stra\u00dfe", "unit", strrep("x", 300))
  expect_identical(find(structure(1, class = c("a", "unit")), names), c(TRUE, FALSE, FALSE, TRUE, FALSE))
  expect_identical(find(list("xunit", "units", quote(unit)), names)[2:3], c(FALSE, FALSE))
  expect_identical(find(list(2, "stra\u00dfe", strrep("x", 300)), names), c(FALSE, FALSE, TRUE, FALSE, TRUE))
  expect_identical(find(NULL, character()), logical())
  expect_identical(.Call(regatta:::ffi_encode_names, list(raw(), raw(7)), names, FALSE), logical(5))
})

test_that("a value whose methods a worker alone has loaded has them in the session", {
  # In a session that has not loaded grid, whose methods tell how lengths of several units add up: those of one
  # would be the same as bare numbers.
  code <- function(on) c(
    "library(regatta)",
    "one <- function(i) grid::unit(i, c('cm', 'npc')[[i]])",
    "control <- par_control(workers = 2L, progress = FALSE, dump = 'no')",
    sprintf("on <- %s", on),
    "plain <- par_lapply(1:2, function(i) is.null(loadNamespace('grid')), .on = on, .control = control)",
    "stopifnot(!isNamespaceLoaded('grid'))",
    "total <- par_reduce(1:2, one, `+`, .on = on, .control = control)",
    "stopifnot(identical(total, Reduce(`+`, lapply(1:2, one))))",
    "cat(isNamespaceLoaded('grid'), '\n')"
  )
  for (on in c("2L", "cluster_local(2L)")) expect_identical(session_prints(code(on)), "TRUE ", label = on)
})

test_that("classes are found in values, their elements and S4 objects", {
  find <- function(x, names) .Call(regatta:::ffi_encode_classes, x, names)
  names <- c("unit", "a", "stats4", "unit", "list")
  expect_identical(find(list(1, list(structure(1, class = c("a", "unit")))), names), c(TRUE, TRUE, FALSE, TRUE, FALSE))
  loadNamespace("stats4")
  object <- methods::new(methods::getClass("summary.mle", where = asNamespace("stats4")))
  expect_identical(find(list(object), names)[[3L]], TRUE)
  expect_identical(find(list("unit", quote(unit), NULL), names), logical(5))
})

test_that("what of packages code may need is looked for anew when it, or what is attached or loaded, has changed", {
  state <- regatta:::the
  known <- function() state$packages
  ask <- function() regatta:::packages_found(streams, character())
  expect_answer <- function(change) {
    ask()
    before <- known()
    ask()
    expect_true(rlang::is_reference(known(), before))
    force(change)
    answer <- ask()
    expect_false(rlang::is_reference(known(), before))
    state$packages <- NULL
    expect_identical(answer, ask())
  }
  bytes <- function(x) list(serialize(x, NULL, xdr = FALSE))
  # As many bytes, and others.
  streams <- bytes("rg_none")
  expect_answer(streams <- bytes("conn_id"))
  expect_true(ask()$bound)
  streams <- bytes(c("bs", "rg_two"))
  withr::defer(detach("package:splines"))
  expect_answer(library(splines))
  expect_identical(ask()$packages$names, list(splines = "bs"))
  expect_identical(unname(regatta:::packages_found(streams, "splines")$packages$names), unname(list()))
  withr::defer(detach("rg_list"))
  expect_answer(attach(list(bs = 1), name = "rg_list"))
  long <- bytes(numeric(1e5))
  regatta:::packages_found(long, character())
  expect_null(regatta:::the$packages)
})

test_that("methods that packages have registered are known without being evaluated, and are put back as they were", {
  got <- fault_run(function() {
    table <- .BaseNamespaceEnv[[".__S3MethodsTable__."]]
    promised <- function() {
      taken <- as.list(.Call(regatta:::ffi_methods_take, table, ls(table, all.names = TRUE)))
      names(taken)[vapply(taken, typeof, "") == "pairlist"]
    }
    before <- promised()
    first <- regatta:::tables_take()
    known <- promised()
    # In the place of promises: a function, nothing, and a promise of the workspace.
    registerS3method("print", "lm", function(x, ...) cat("left\n"))
    rm("print.acf", envir = table)
    assign("rg_print", function(x, ...) cat("left\n"), globalenv())
    registerS3method("print", "glm", "rg_print", envir = globalenv())
    foreign <- names(regatta:::registered_methods())
    regatta:::tables_restore(first)
    list(
      before = before, known = known, foreign = foreign, after = promised(),
      foreign_after = names(regatta:::registered_methods()), lm = utils::capture.output(print(lm(dist ~ speed, cars)))[[2L]]
    )
  })$value
  expect_true(all(c("print.lm", "print.acf", "print.glm") %in% got$before))
  # Few have promises of another kind.
  expect_true(all(got$known %in% got$before))
  expect_gt(length(got$known), 0.9 * length(got$before))
  expect_identical(got$foreign, c("print.glm", "print.lm"))
  expect_setequal(got$after, got$known)
  expect_null(got$foreign_after)
  expect_identical(got$lm, "Call:")
})

test_that("nothing is left behind", {
  nodes$stop()
  end_servers()
  expect_no_detritus(detritus)
})
