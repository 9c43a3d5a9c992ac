# Methods, generics and classes that the session has are those of workers that do not inherit it, for a call.
withr::with_preserve_seed(remote_warm())
requireNamespace("Matrix", quietly = TRUE) # sets an option
detritus <- detritus_snapshot()

started <- places_start()
places <- started$places
for (place in places) par_lapply(1L, identity, .on = place, .control = on_local())
assign("rg_everywhere", everywhere_on(places), globalenv())

test_that("methods and classes of the workspace are found in workers", {
  script_in_workspace({
    rg_scale <- 10
    length.rg_kk <- function(x) 99L
    summary.rg_kk <- function(object, ...) paste("mine", object$a * rg_scale)
    Ops.rg_kk <- function(e1, e2) "op"
    rg_everywhere(lapply(1:2, function(i) {
      x <- structure(list(a = i), class = "rg_kk")
      list(length(x), summary(x), x + x)
    }))
  })
  script_in_workspace({
    setClass("RgP", representation(x = "numeric"), validity = function(object) {
      if (object@x[[1L]] < rg_least) "too small" else TRUE
    })
    rg_least <- 0
    setMethod("length", "RgP", function(x) 42L)
    setMethod("show", "RgP", function(object) cat("an RgP\n"))
    setGeneric("rgArea", function(shape) standardGeneric("rgArea"))
    setMethod("rgArea", "RgP", function(shape) shape@x * rg_side)
    rg_side <- 3
    rg_total <- function(p) sum(rgArea(p))
    rg_everywhere(lapply(1:2, function(i) {
      p <- new("RgP", x = c(i, 2))
      list(length(p), capture.output(print(p)), rg_total(p), inherits(try(new("RgP", x = -1), silent = TRUE), "try-error"))
    }))
    rg_objects <- list(new("RgP", x = 1), new("RgP", x = 2))
    rg_everywhere(lapply(rg_objects, function(p) list(length(p), rgArea(p))))
    rg_everywhere(lapply(1, function(i) existsMethod("length", "RgP")))
    removeMethod("length", "RgP")
    rg_everywhere(lapply(rg_objects, length))
    removeMethod("show", "RgP")
    removeClass("RgP")
  })
  # A function that has the name of a primitive for which there are methods, too.
  script_in_workspace({
    setClass("RgP", representation(x = "numeric"))
    setMethod("+", signature("RgP", "RgP"), function(e1, e2) new("RgP", x = e1@x + e2@x))
    rg_everywhere(lapply(1:2, function(i) (new("RgP", x = 1) + new("RgP", x = i))@x))
    `+` <- function(e1, e2) paste(e1, e2)
    rg_everywhere(lapply(1:2, function(i) 1 + i))
    rm(`+`)
    rg_everywhere(lapply(1:2, function(i) list(1 + i, (new("RgP", x = 1) + new("RgP", x = i))@x)))
    removeMethod("+", signature("RgP", "RgP"))
    removeClass("RgP")
  })
  script_in_workspace({
    rg_step <- 2
    RgAccount <- setRefClass("RgAccount", fields = list(total = "numeric"), methods = list(
      add = function(x) {
        total <<- total + x * rg_step
        invisible(.self)
      }
    ))
    rg_everywhere(lapply(1:3, function(i) {
      a <- new("RgAccount", total = 1)
      a$add(i)
      a$total
    }))
    removeClass("RgAccount")
  })
  left <- lapply(places, parallel::clusterCall, function() {
    c(ls(globalenv(), all.names = TRUE), existsMethod("length", "RgP"), isClass("RgP"))
  })
  for (place in names(places)) {
    expect_identical(setdiff(left[[place]][[1L]], ".Random.seed"), "FALSE", label = place)
  }
})

test_that("a function or generic of the workspace counts, whatever methods a generic of its name has", {
  script_in_workspace({
    setClass("RgP", representation(x = "numeric"))
    rg_objects <- list(new("RgP", x = 1), 3)
    rg_state <- function() {
      rg_everywhere(lapply(rg_objects, function(p) {
        Map(function(f) tryCatch(as.vector(f(p)), error = function(e) "none"), list(summary, unique, coef))
      }))
    }
    for (name in c("summary", "unique", "coef")) setMethod(name, "RgP", eval(call("function", formals(name), "method")))
    rg_state()
    summary <- function(object, ...) "plain"
    unique <- function(x, ...) c("plain", typeof(x))
    rg_state()
    rm(summary, unique)
    rg_state()
    suppressMessages(setGeneric("summary", function(object, digits = 3, ...) standardGeneric("summary")))
    suppressMessages(setGeneric("coef", function(object, which = "all", ...) standardGeneric("coef")))
    rg_state()
    setMethod("summary", "RgP", function(object, digits = 3, ...) "of my own")
    setMethod("coef", "RgP", function(object, which = "all", ...) which)
    rg_state()
    removeMethod("coef", "RgP")
    rg_state()
    removeGeneric("coef")
    removeGeneric("summary")
    removeClass("RgP")
  })
})

test_that("methods of packages are there again after a call whose elements, or session, had others in their place", {
  skip_if_not_installed("Matrix")
  withr::local_package("Matrix")
  m <- as(matrix(c(1, 5, 0, 2), 2), "CsparseMatrix")
  look <- function(m) {
    read <- function(code) tryCatch(code, error = function(e) "error")
    list(
      length(m), read(dim(m)), utils::capture.output(methods::show(m)), class(read(Matrix::t(m))), read(sum(m)),
      read(class(m + m)), read(class(m %*% m)), class(Matrix::band(m, 0, 0)), class(read(Matrix::tril(m))),
      read(Matrix::colSums(m)), read(class(base::summary(m))), read(nrow(m))
    )
  }
  environment(look) <- globalenv()
  workspace <- function(f) `environment<-`(f, globalenv())
  over <- workspace(function(i, where = globalenv()) {
    library(Matrix)
    setMethod("length", "Matrix", function(x) 1L, where = where)
    setMethod("dim", "Matrix", function(x) c(7L, 7L), where = where)
    setMethod("show", "sparseMatrix", function(object) cat("mine\n"), where = where)
    setMethod("t", "CsparseMatrix", function(x) "mine", where = where)
    setMethod("Summary", "CsparseMatrix", function(x, ..., na.rm = FALSE) 0, where = where)
    setMethod("Arith", signature("CsparseMatrix", "CsparseMatrix"), function(e1, e2) "mine", where = where)
    setMethod("%*%", signature("CsparseMatrix", "CsparseMatrix"), function(x, y) "mine", where = where)
    setMethod("band", "CsparseMatrix", function(x, k1, k2, ...) "mine", where = where)
    if ("k" %in% getGeneric("tril")@signature) { # not in newer versions of Matrix
      setMethod("tril", signature("CsparseMatrix", "numeric"), function(x, k = 0, ...) "mine", where = where)
    }
    setMethod("tril", "CsparseMatrix", function(x, k = 0, ...) "mine", where = where)
    setMethod("colSums", "ANY", function(x, na.rm = FALSE, dims = 1, ...) "mine", where = where)
    setMethod("colSums", "CsparseMatrix", function(x, na.rm = FALSE, dims = 1, ...) "mine", where = where)
    # One for which the package has none, and one in the place of R's function.
    suppressMessages(setMethod("nrow", "Matrix", function(x) -1L, where = where))
    suppressMessages(setMethod("summary", "ANY", function(object, ...) "mine", where = where))
    i
  })
  takes_away <- workspace(function(i) {
    library(Matrix)
    suppressMessages(removeMethod("show", "sparseMatrix"))
    removeMethod("length", "Matrix")
    removeMethod("band", "CsparseMatrix")
    i
  })
  leaves <- list(
    sets = over,
    removes = takes_away,
    both = workspace(function(i) over(takes_away(i))),
    forgets = workspace(function(i) {
      over(i)
      rm(list = ls(globalenv(), all.names = TRUE), envir = globalenv())
    }),
    elsewhere = workspace(function(i) over(i, new.env()))
  )
  # Each on workers that have loaded the package, and then on such as load it in the call.
  for (name in names(leaves)) {
    fresh <- c(list(cluster_local(1L)), list(parallel::makePSOCKcluster(1L)))
    parallel::clusterCall(fresh[[2L]], .libPaths, .libPaths())
    for (place in c(places, fresh)) {
      step <- leaves[[name]]
      assign("over", over, globalenv())
      assign("takes_away", takes_away, globalenv())
      par_lapply(1L, step, .on = place, .control = on_local())
      rm("over", "takes_away", envir = globalenv())
      expect_identical(par_lapply(list(m), look, .on = place, .control = on_local())[[1L]], look(m), label = name)
      expect_identical(parallel::clusterCall(place, look, m)[[1L]], look(m), label = name)
    }
    for (place in fresh) parallel::stopCluster(place)
  }
  # A package that only an element loads, which no code names.
  leaves <- list(
    sets = function(i) {
      loadNamespace(paste0("stats", 4))
      setMethod("show", paste0("m", "le"), function(object) cat("mine\n"), where = globalenv())
      i
    },
    removes = function(i) {
      loadNamespace(paste0("stats", 4))
      suppressMessages(removeMethod("show", paste0("m", "le"), where = globalenv()))
    }
  )
  home <- workspace(function() environmentName(topenv(environment(selectMethod("show", paste0("m", "le"))))))
  for (name in names(leaves)) {
    fresh <- cluster_local(1L)
    expect_false(parallel::clusterCall(fresh, isNamespaceLoaded, "stats4")[[1L]])
    par_lapply(1L, workspace(leaves[[name]]), .on = fresh, .control = on_local())
    expect_identical(parallel::clusterCall(fresh, home), list("stats4"), label = name)
    parallel::stopCluster(fresh)
  }
  # The session's own count in its calls, and stay with it.
  before <- regatta:::generics_take()
  expected <- look(m)
  local({
    over(1L)
    for (name in names(places)) {
      seen <- par_lapply(list(m), look, .on = places[[name]], .control = on_local())[[1L]]
      expect_identical(seen, look(m), label = name)
      expect_false(identical(seen, expected))
      expect_identical(parallel::clusterCall(places[[name]], look, m)[[1L]], expected, label = name)
    }
    methods::cacheMetaData(1L, FALSE)
    rm(list = c("nrow", grep("^[.]__T__", ls(globalenv(), all.names = TRUE), value = TRUE)), envir = globalenv())
  })
  regatta:::generics_restore(before, loadedNamespaces())
  expect_identical(look(m), expected)
})

test_that("methods and classes of the workspace that come, change or go between calls are those of the session", {
  skip_if_not_installed("Matrix")
  withr::local_package("Matrix")
  withr::local_package("stats4")
  # Each state of the session: what a worker has found for its classes in the one before is no longer true. Those of
  # the session itself are reset where R leaves that to its users.
  script_in_workspace({
    rg_look <- function(i) dim(Matrix::Diagonal(3))
    rg_everywhere(lapply(1:2, rg_look))
    setMethod("dim", "ddiMatrix", function(x) c(7L, 7L))
    rg_everywhere(lapply(1:2, rg_look))
    removeMethod("dim", "ddiMatrix")
    rg_everywhere(lapply(1:2, rg_look))
    setClass("RgM", representation(x = "numeric"))
    setClass("RgN", contains = "RgM")
    setClass("RgO", contains = "dgCMatrix")
    rg_read <- function(code) tryCatch(code, error = function(e) "error")
    rg_look <- function(i) {
      m <- new("RgM", x = c(1, 2))
      n <- new("RgN", x = c(3, 4))
      o <- new("RgO")
      lapply(list(m = m, n = n, o = o), function(a) {
        list(
          length(a), rg_read(dim(a)), nrow(a), rg_read(a$x), rg_read(as.numeric(a)), rg_read(stats4::logLik(a)),
          class(summary(a)), class(rg_read(t(a))), class(rg_read(a %*% a)), rg_read(a * 2), class(rg_read(a + a)),
          rg_read(-a), rg_read(as(a, "character")), rg_read(a[1]), is(a, "RgU"), is(1, "RgU"),
          class(rg_read(new("RgM", x = c(1, 2, 3)))), capture.output(show(a))[[1L]],
          if (is(a, "RgM")) a@x
        )
      })
    }
    rg_state <- function() rg_everywhere(lapply(1:2, rg_look))
    rg_state()
    rg_set <- list(
      initialize = quote(function(.Object, ...) {
        .Object <- callNextMethod()
        .Object@x <- .Object@x * 10
        .Object
      }),
      length = quote(function(x) 9L), dim = quote(function(x) c(4L, 4L)), `$` = quote(function(x, name) "dollar"),
      as.numeric = quote(function(x, ...) 7), summary = quote(function(object, ...) 1i),
      t = quote(function(x) "t"), show = quote(function(object) cat("shown\n"))
    )
    for (name in names(rg_set)) setMethod(name, "RgM", eval(rg_set[[name]]))
    setMethod(stats4::logLik, "RgM", function(object, ...) 5)
    setMethod("t", "RgO", function(x) 2)
    setMethod("dim", "dgCMatrix", function(x) c(8L, 8L))
    setMethod("%*%", signature("RgM", "RgM"), function(x, y) 1i)
    setMethod("%*%", signature("RgO", "RgO"), function(x, y) 2i)
    setMethod("Arith", signature("RgM", "numeric"), function(e1, e2) "arith")
    setMethod("+", signature("RgM", "RgM"), function(e1, e2) TRUE)
    setAs("RgM", "character", function(from) "set")
    rg_state()
    setClassUnion("RgU", c("numeric", "RgM"))
    setValidity("RgM", function(object) if (length(object@x) == 3L) "three" else TRUE)
    rg_state()
    # One after the other goes again.
    for (name in names(rg_set)) removeMethod(name, "RgM")
    removeMethod("Arith", signature("RgM", "numeric"))
    removeMethod("coerce", signature("RgM", "character"))
    removeMethod("dim", "dgCMatrix")
    rg_state()
    removeMethod("t", "RgO")
    removeMethod("%*%", signature("RgO", "RgO"))
    removeClass("RgU")
    rg_state()
    for (name in c("RgN", "RgM", "RgO")) removeClass(name)
  })
  # A class that has other superclasses than before, with methods of packages and what as() has found for them.
  script_in_workspace({
    setClass("RgV", representation("VIRTUAL"))
    setClass("RgW", representation(x = "numeric"))
    rg_look <- function(i) {
      k <- new("RgK")
      list(class(Matrix::t(k)), class(k %*% k), tryCatch(as(k, "RgW")@x, error = function(e) "error"), is(k, "RgV"))
    }
    for (super in c("dgCMatrix", "dgTMatrix")) {
      setClass("RgK", contains = super)
      setIs("RgK", "RgW",
        coerce = eval(bquote(function(from) new("RgW", x = .(nchar(super) + (super == "dgTMatrix"))))),
        replace = function(from, value) from
      )
      for (f in c("t", "%*%", "coerce")) resetGeneric(f)
      rg_everywhere(lapply(1:2, rg_look))
      removeClass("RgK")
    }
    for (name in c("RgV", "RgW")) removeClass(name)
  })
})

test_that("nothing is left behind", {
  rm("rg_everywhere", envir = globalenv())
  started$stop()
  end_servers()
  expect_no_detritus(detritus)
})
