detritus <- detritus_snapshot()

# What a vector stands on: handed over by a handle, or a result of a map, alone or with another one on
# the same memory. Each gives n such vectors, by one map: to fork takes more time than all the rest.
origins <- list(
  shared = function(x, n = 1L) lapply(seq_len(n), function(i) shm_share(x, min = 0)),
  received = function(x, n = 1L) {
    lapply(seq_len(n), function(i) {
      keep <- shm_share(x, min = 0)
      unserialize(with_shm_handles(serialize(keep, NULL)))
    })
  },
  result = function(x, n = 1L) {
    par_lapply(seq_len(n), function(i) x, .control = two_workers(workers = 1L, shm_min = 0))
  },
  twin = function(x, n = 1L) {
    both <- par_lapply(seq_len(n), function(i) x, .control = two_workers(workers = 1L, shm_min = 0))
    again <- par_lapply(rep(seq_len(n), 2L), function(i) both[[i]], .control = two_workers(shm_min = 0))
    again[n + seq_len(n)]
  }
)

test_that("a changed vector of any type travels as what its holder sees", {
  turn <- 1L
  routes <- shm_routes()
  changes <- shm_changes(shm_poke(), shm_poke("read"))
  wrong <- character()
  for (kind in shm_kinds) {
    plain <- shm_example(kind)
    value <- shm_other(kind)
    for (origin in c("received", "result", "twin")) {
      vectors <- stats::setNames(origins[[origin]](plain, length(changes)), names(changes))
      seen <- expected <- list()
      for (change in names(changes)) {
        x <- vectors[[change]]
        # As if it had never been in a list.
        vectors[change] <- list(NULL)
        expect_true(is_shm(x))
        seen[[change]] <- changes[[change]](x, 5L, value)
        expected[[change]] <- changes[[change]](shm_copy(plain), 5L, value)
        if (!identical(seen[[change]], expected[[change]])) wrong <- c(wrong, paste(kind, origin, change))
      }
      # Three of the others in turn: test-shm-random.R tries all of them.
      for (route in names(routes)[c(1:2, 3:5 + turn %% (length(routes) - 4L))]) {
        # Each call is a worker of its own.
        which <- if (route == "call") turn else seq_along(changes)
        same <- mapply(identical, routes[[route]](seen[which]), expected[which])
        if (!all(same)) wrong <- c(wrong, paste(kind, origin, names(changes)[which][!same], route))
      }
      turn <- turn %% length(changes) + 1L
    }
  }
  expect_identical(wrong, character())
})

test_that("what is changed inside of a list, a data frame, an attribute or a slot travels so", {
  pokes <- list(poke = shm_poke(), `poke by a pointer for reading` = shm_poke("read"))
  setClass("slotted", representation(v = "ANY"), where = globalenv())
  withr::defer(removeClass("slotted", where = globalenv()))
  holders <- list(
    list = list(function(x) list(1, list(x)), function(h) h[[2L]][[1L]], function(h, v) {
      h[[2L]][[1L]] <- v
      h
    }),
    frame = list(function(x) data.frame(x = I(x)), function(h) unclass(h$x), function(h, v) {
      h$x <- I(v)
      h
    }),
    attribute = list(function(x) structure(1, note = x), function(h) attr(h, "note"), function(h, v) {
      attr(h, "note") <- v
      h
    }),
    slot = list(function(x) new("slotted", v = x), function(h) h@v, function(h, v) {
      h@v <- v
      h
    })
  )
  routes <- shm_routes()
  for (kind in shm_kinds) {
    plain <- shm_example(kind)
    value <- shm_other(kind)
    cases <- expand.grid(by = c(names(pokes), "assign"), holder = names(holders), stringsAsFactors = FALSE)
    sent <- Map(function(by, holder) {
      parts <- holders[[holder]]
      held <- shm_share(parts[[1L]](plain), min = 0)
      inner <- parts[[2L]](held)
      if (by == "assign") inner[3L] <- value else pokes[[by]](inner, 3L, value)
      parts[[3L]](held, inner)
    }, cases$by, cases$holder)
    inside <- function(held) unname(Map(function(one, holder) holders[[holder]][[2L]](one), held, cases$holder))
    expected <- inside(sent)
    for (one in expected) expect_identical(one[[3L]], value)
    for (route in c("serialize", "handle", "map", "call_list")) {
      expect_identical(inside(routes[[route]](sent)), expected, info = paste(kind, route))
    }
  }
})

test_that("strings that were changed in place are sent", {
  x <- unserialize(with_shm_handles(serialize(shm_share(shm_example("character")), NULL)))
  x[7] <- "NEW"
  expect_identical(par_lapply(1, function(i) x, .control = two_workers())[[1L]][[7L]], "NEW")
  l <- unserialize(with_shm_handles(serialize(list(s = shm_share(shm_example("character"), min = 0)), NULL)))
  l$s[1] <- "CHANGED"
  expect_identical(unserialize(with_shm_handles(serialize(l, NULL)))$s[[1L]], "CHANGED")
})

test_that("a worker's and a node's changes come back, and nobody else sees them", {
  pokes <- list(shm_poke(), shm_poke("read"))
  withr::local_preserve_seed()
  cluster <- parallel::makePSOCKcluster(1L)
  withr::defer(parallel::stopCluster(cluster))
  parallel::clusterCall(cluster, function(paths) .libPaths(paths), .libPaths())
  control <- two_workers(shm_min = 0)
  for (kind in shm_kinds) {
    plain <- shm_example(kind)
    value <- shm_other(kind)
    expected <- replace(plain, 2L, value)
    vectors <- lapply(origins, function(origin) origin(plain)[[1L]])
    in_workers <- par_lapply(1:2, function(i) {
      for (x in vectors) pokes[[i]](x, 2L, value)
      vectors
    }, .control = control)
    on_node <- par_lapply(1L, function(i) {
      lapply(vectors, function(x) {
        x[2L] <- value
        x
      })
    }, .on = cluster, .control = two_workers(workers = NULL, shm_min = 0))[[1L]]
    change <- function(v, value) {
      v[2L] <- value
      v
    }
    environment(change) <- globalenv()
    for (poke in pokes) {
      got <- par_value(par_call(lapply(vectors, poke, 2L, value), .control = control))
      for (one in got) expect_identical(one, expected, info = kind)
    }
    for (origin in names(origins)) {
      x <- vectors[[origin]]
      got <- lapply(in_workers, function(one) one[[origin]])
      expect_identical(got, list(expected, expected), info = paste(kind, origin))
      expect_identical(parallel::clusterCall(cluster, change, x, value)[[1L]], expected)
      expect_identical(on_node[[origin]], expected, info = paste(kind, origin))
      expect_identical(x, plain, info = paste(kind, origin))
    }
  }
})

test_that("a table that data.table has changed by reference travels as it is", {
  skip_if_not_installed("data.table")
  control <- two_workers(shm_min = 0)
  make <- function(i) data.table::data.table(a = shm_example("double"), s = shm_example("character"))
  tables <- par_lapply(1:2, make, .control = control)
  z <- data.table::setalloccol(tables[[1L]])
  for (j in c("a", "s")) {
    data.table::set(z, 1:3, j, shm_other(if (j == "a") "double" else "character"))
  }
  expected <- make(1)
  data.table::set(expected, 1:3, "a", -1.5)
  data.table::set(expected, 1:3, "s", "changed")
  for (got in list(
    par_lapply(1, function(i) z, .control = control)[[1L]], par_value(par_call(z, .control = control)),
    unserialize(serialize(z, NULL)), unserialize(with_shm_handles(serialize(z, NULL)))
  )) {
    expect_identical(got$a, expected$a)
    expect_identical(got$s, expected$s)
    expect_identical(shm_copy(z$s), expected$s)
  }
  expect_identical(tables[[2L]]$s, make(2)$s)
  in_worker <- par_lapply(1:2, function(i) {
    w <- data.table::setalloccol(data.table::copy(tables[[2L]]))
    data.table::set(w, 2L, "s", "in a copy")
    data.table::set(tables[[2L]], 3L, "s", "in place")
    list(w, tables[[2L]])
  }, .control = control)
  expect_identical(in_worker[[2L]][[1L]]$s[[2L]], "in a copy")
  expect_identical(in_worker[[1L]][[1L]]$s, replace(make(2)$s, 2L, "in a copy"))
  expect_identical(in_worker[[1L]][[2L]]$s, replace(make(2)$s, 3L, "in place"))
  expect_identical(in_worker[[2L]][[2L]]$s, replace(make(2)$s, 3L, "in place"))
})

test_that("what `:=` of data.table writes in place travels", {
  skip_if_not_installed("data.table")
  control <- two_workers(shm_min = 0)
  make <- function(i) data.table::data.table(a = shm_example("double"), s = shm_example("character"))
  assign_in_place <- function(z) z[1:3, `:=`(a = -1.5, s = "changed")]
  environment(assign_in_place) <- globalenv() # data.table asks who calls it
  z <- par_lapply(1:2, make, .control = control)[[1L]]
  assign_in_place(z)
  expected <- make(1)
  assign_in_place(expected)
  expect_identical(expected$s[1:4], c(rep("changed", 3L), make(1)$s[[4L]]))
  for (got in list(
    par_lapply(1, function(i) z, .control = control)[[1L]], par_value(par_call(z, .control = control))
  )) {
    expect_identical(got$a, expected$a)
    expect_identical(got$s, expected$s)
  }
  expect_identical(par_lapply(1, function(i) z$s, .control = control)[[1L]], expected$s)
})

test_that("what Rcpp writes in place travels", {
  skip_if_not_installed("Rcpp")
  skip_on_cran() # it compiles C++
  withr::local_preserve_seed() # Rcpp draws the name of a library
  code <- "void poke(NumericVector v, CharacterVector s) { v[0] = -1.5; s[0] = \"poked\"; }"
  poke <- Rcpp::cppFunction(code, env = environment(), cacheDir = withr::local_tempdir())
  control <- two_workers(shm_min = 0)
  make <- function(i) list(v = shm_example("double"), s = shm_example("character"))
  expected <- list(v = replace(make(1)$v, 1L, -1.5), s = replace(make(1)$s, 1L, "poked"))
  got <- par_lapply(1:2, make, .control = control)
  poke(got[[1L]]$v, got[[1L]]$s)
  expect_identical(par_lapply(1, function(i) got[[1L]], .control = control)[[1L]], expected)
  expect_identical(got[[2L]], make(2))
  in_worker <- par_lapply(1, function(i) {
    poke(got[[2L]]$v, got[[2L]]$s)
    got[[2L]]
  }, .control = control)
  expect_identical(in_worker[[1L]], expected)
})

test_that("results that stand on the same memory do not change with each other", {
  control <- two_workers(shm_min = 0)
  for (poke in list(shm_poke(), shm_poke("read"))) for (kind in shm_kinds) {
    plain <- shm_example(kind)
    value <- shm_other(kind)
    first <- par_lapply(1L, function(i) plain, .control = control)[[1L]]
    # Before and after the first was lent to code that may write.
    second <- par_lapply(1L, function(i) first, .control = control)[[1L]]
    poke(first, 1L, plain[[1L]])
    third <- par_lapply(1L, function(i) second, .control = control)[[1L]]
    poke(first, 4L, value)
    poke(third, 6L, value)
    expect_identical(first, replace(plain, 4L, value))
    expect_identical(second, plain)
    expect_identical(third, replace(plain, 6L, value))
    sent <- par_lapply(1L, function(i) list(first, second, third), .control = control)[[1L]]
    expect_identical(sent, list(replace(plain, 4L, value), plain, replace(plain, 6L, value)))
  }
})

test_that("who was alone on a result when it was lent cannot write to a later one", {
  # C code that keeps its pointer while R runs, as an Rcpp vector does.
  library <- fault_compile("
    #include <Rinternals.h>
    SEXP hold(SEXP x, SEXP f) {
      double *v = REAL(x);
      SEXP call = PROTECT(Rf_lang1(f));
      SEXP later = PROTECT(Rf_eval(call, R_GlobalEnv));
      v[0] = -1;
      UNPROTECT(2);
      return later;
    }", "hold")
  dll <- dyn.load(library)
  withr::defer(dyn.unload(library))
  control <- two_workers(workers = 1L, shm_min = 0)
  x <- par_lapply(1L, function(i) as.double(1:20000), .control = control)[[1L]]
  later <- .Call(getNativeSymbolInfo("hold", dll), x, function() {
    par_lapply(1L, function(i) x, .control = control)[[1L]]
  })
  expect_identical(x[[1L]], -1)
  expect_identical(later, as.double(1:20000))
})

test_that("a duplicate of an array is code's own that writes to it, by whatever pointer", {
  # As Rcpp::clone() does.
  clone <- function(pointer) {
    library <- fault_compile(sprintf("
      #include <Rinternals.h>
      SEXP clone(SEXP x) {
        SEXP copy = PROTECT(Rf_duplicate(x));
        ((double *)%s(copy))[0] = -1;
        UNPROTECT(1);
        return copy;
      }", pointer), "clone", env = parent.frame())
    dll <- dyn.load(library)
    withr::defer_parent(dyn.unload(library))
    getNativeSymbolInfo("clone", dll)
  }
  for (symbol in list(clone("DATAPTR"), clone("DATAPTR_RO"))) {
    x <- shm_array(4L)
    x[] <- 1:4
    expect_identical(.Call(symbol, x)[1:4], c(-1, 2, 3, 4))
    expect_identical(x[], c(1, 2, 3, 4))
  }
})

test_that("what was only read is still a handle", {
  shared <- shm_share(list(as.double(1:1e5), rep(c("a", "b"), 5e4), sprintf("s%d", 1:1e5)))
  order(shared[[3L]])
  expect_identical(colSums(matrix(shared[[1L]], 100)), colSums(matrix(shared[[1L]], 100)))
  invisible(list(match("a", shared[[2L]]), factor(shared[[2L]]), order(shared[[1L]])))
  expect_lt(length(with_shm_handles(serialize(shared, NULL))), 2000)
})

test_that("an array is live in objects that say so, and ordinary in all others", {
  for (n in c(10L, 1000L)) {
    x <- shm_array(n)
    x[] <- seq_len(n)
    travel <- function(v) unserialize(with_shm_handles(serialize(v, NULL)))
    named <- x
    attr(named, "note") <- "a"
    plain <- unclass(x)
    stripped <- shm_array(n)
    class(stripped) <- NULL
    for (v in list(x, named)) {
      y <- travel(v)
      y[2] <- -2
      expect_identical(x[[2L]], -2)
      x[2] <- 2
    }
    for (v in list(plain, stripped)) {
      y <- travel(v)
      y[2] <- -2
      expect_identical(v[[2L]], if (identical(v, plain)) 2 else 0)
      expect_identical(x[[2L]], 2)
    }
    keep <- stripped
    stripped[3] <- 5
    expect_identical(keep[[3L]], 0)
    # The name of a class makes no array of anything.
    forged <- structure(shm_share(as.double(1:10000), min = 0), class = "shm_array")
    expect_false(is_shm_array(forged))
    expect_false(is_shm_array(travel(forged)))
  }
})

test_that("nothing is left behind", {
  gc()
  expect_no_detritus(detritus)
})
