detritus <- detritus_snapshot()

settings <- par_control(progress = FALSE, seed = 1L, batch = 1L)

# Where one worker takes all elements nobody would notice that each has a value of its own.
slowly <- function(...) {
  list(...)
  Sys.sleep(0.02)
}

# Whether elements, on two workers, have one value for all.
is_one <- function(values) length(unique(values)) == 1L

# The same maps on one worker, on forks and on workers that stand ready, for all tests that do not say otherwise.
standing <- cluster_local(2)
on_all <- function(code, pool = standing) lapply(list(one = 1, forks = 2, pool = pool), code)

test_that("an argument that nobody has used yet has one value for all elements, that of the session", {
  withr::local_preserve_seed()
  direct <- function(x, verb, ...) verb(1:6, function(i) {
    slowly(i)
    x
  }, ...)
  maker <- function(x) function(i) {
    slowly(i)
    x
  }
  through <- function(y, verb, ...) direct(y, verb, ...)
  dots <- function(..., verb, more) do.call(verb, c(list(1:6, function(i) {
    slowly(i)
    c(...)
  }), more))
  cases <- list(
    function(verb, ...) direct(runif(1), verb, ...),
    function(verb, ...) through(runif(1), verb, ...),
    function(verb, ...) verb(1:6, maker(runif(1)), ...),
    function(verb, ...) {
      made <- maker(runif(1))
      verb(1:6, function(i) made(i), ...)
    },
    function(verb, ...) dots(runif(1), verb = verb, more = list(...))
  )
  for (case in cases) {
    set.seed(11)
    expected <- case(sapply)
    got <- on_all(function(on) {
      set.seed(11)
      case(par_sapply, .on = on, .control = settings)
    })
    expect_identical(unname(got), rep(list(expected), 3L))
  }
})

test_that("it is found wherever code leads to it: objects of functions, formulas, calls, environments, elements", {
  withr::local_preserve_seed()
  data <- data.frame(u = 1:8, v = c(2, 1, 4, 3, 6, 5, 8, 7))
  object <- function(mu) list(name = "prior", inner = list(mean = function() mu))
  holder <- function(mu) environment()
  marked <- function(mu) structure(1, by = function() mu)
  slot <- function(mu) methods::new("rg_around", f = function() mu)
  methods::setClass("rg_around", representation(f = "function"), where = globalenv())
  withr::defer(methods::removeClass("rg_around", where = globalenv()))
  registerS3method("names", "rg_no_names", function(x) NULL)
  cases <- list(
    function(verb, more) {
      prior <- object(runif(1))
      verb(1:4, function(i) {
        slowly(i)
        prior$inner$mean()
      })
    },
    function(verb, more) verb(1:4, function(i, of) of$inner$mean() + 0 * slowly(i), object(runif(1))),
    function(verb, more) verb(rep(list(object(runif(1))), 4), function(of) of$inner$mean() + 0 * slowly(1)),
    function(verb, more) {
      fit <- function(x) {
        model <- v ~ x
        verb(1:4, function(i) {
          slowly(i)
          stats::coef(stats::lm(model, data))[["x"]]
        })
      }
      fit(runif(8))
    },
    function(verb, more) {
      fit <- function(w) {
        model <- quote(stats::coef(stats::lm(v ~ u, data, weights = w))[["u"]])
        verb(1:4, function(i) {
          slowly(i)
          eval(model)
        })
      }
      fit(runif(8))
    },
    function(verb, more) {
      held <- holder(runif(1))
      verb(1:4, function(i) {
        slowly(i)
        held[["mu"]]
      })
    },
    function(verb, more) {
      held <- structure(holder(runif(1)), class = c("rg_no_names", "error"))
      verb(1:4, function(i) {
        slowly(i)
        get("mu", held)
      })
    },
    function(verb, more) {
      by_name <- function(mu) verb(1:4, function(i) {
        slowly(i)
        get("mu")
      })
      by_name(runif(1))
    },
    function(verb, more) {
      with_mark <- marked(runif(1))
      verb(1:4, function(i) attr(with_mark, "by")() + 0 * slowly(i))
    },
    function(verb, more) {
      with_slot <- slot(runif(1))
      verb(1:4, function(i) with_slot@f() + 0 * slowly(i))
    }
  )
  for (case in cases) {
    set.seed(5)
    expected <- case(function(...) unlist(lapply(...)))
    got <- on_all(function(on) {
      set.seed(5)
      case(function(X, FUN, ...) unlist(par_lapply(X, FUN, ..., .on = on, .control = settings)))
    })
    expect_identical(unname(got), rep(list(expected), 3L))
  }
  verbs <- list(
    function(f, on) unlist(par_mapply(function(i, g) g() + 0 * i, 1:4, list(f), .on = on, .control = settings)),
    function(f, on) par_vapply(1:4, function(i) f$mean(), 1, .on = on, .control = settings),
    function(f, on) par_reduce(1:4, function(i) f$mean(), `+`, .on = on, .control = par_control(progress = FALSE)),
    function(f, on) shm_fill(4, function(range) rep(f$mean(), length(range)), .on = on, .control = settings)[]
  )
  mean_of <- function(mu) list(mean = function() mu)
  for (k in seq_along(verbs)) {
    got <- on_all(function(on) {
      set.seed(5)
      made <- mean_of(runif(1))
      verbs[[k]](if (k == 1L) made$mean else made, on)
    })
    expect_identical(got[["forks"]], got[["one"]])
    expect_identical(got[["pool"]], got[["one"]])
    set.seed(5)
    expect_identical(unique(as.numeric(got[["one"]]) / if (k == 3L) 4 else 1), runif(1))
  }
})

test_that("it is evaluated once, with its warnings, and what fails fails where it is used", {
  withr::local_preserve_seed()
  count <- 0
  f <- function(x, on) par_sapply(1:4, function(i) x + i, .on = on, .control = settings)
  got <- on_all(function(on) {
    count <<- 0
    warned <- character()
    values <- withCallingHandlers(f({
      count <<- count + 1
      warning("of x")
      1
    }, on), warning = function(w) {
      warned <<- c(warned, conditionMessage(w))
      invokeRestart("muffleWarning")
    })
    list(values, count, warned)
  })
  expect_identical(unname(got), rep(list(list(c(2, 3, 4, 5), 1, "of x")), 3L))
  failing <- on_all(function(on) {
    g <- function(x) par_sapply(1:2, function(i) if (i > 5) x else i, .on = on, .control = settings)
    list(g(stop("never used")), g(sqrt("never used")))
  })
  expect_identical(unname(failing), rep(list(list(1:2, 1:2)), 3L))
})

test_that("what would leave the functions around the map is not evaluated for it", {
  withr::local_preserve_seed()
  got <- on_all(function(on) {
    early <- function(x, otherwise = return("early")) {
      par_sapply(x, function(i) if (i > 5) otherwise else i, .on = on, .control = settings)
    }
    outer <- function(x) early(1:2, x)
    list(
      callCC(function(k) par_sapply(1:2, function(i) if (i > 5) k("out") else i, .on = on, .control = settings)),
      early(1:2),
      (function() outer(return("left")))(),
      callCC(function(k) par_value(par_call(if (FALSE) k("out") else 1:2, .on = on)))
    )
  })
  expect_identical(unname(got), rep(list(rep(list(1:2), 4L)), 3L))
})

test_that("it is found where only text, symbols, methods, bindings or options beside it lead to it", {
  withr::local_preserve_seed()
  wrapper <- function(X, FUN, verb) verb(X, function(i) {
    slowly()
    FUN(i)
  })
  cases <- list(
    text = function(rg_late, verb) verb(1:4, function(i) eval(parse(text = "rg_late + 0")) + 0 * slowly()),
    element = function(rg_late, verb) verb(rep("rg_late * 1", 4), function(code) {
      slowly()
      eval(parse(text = code))
    }),
    variable = function(rg_late, verb) {
      name <- c(a = "rg_late")
      verb(1:4, function(i) {
        slowly()
        get(name)
      })
    },
    symbol = function(rg_late, verb) {
      code <- alist(first = rg_late)
      verb(1:4, function(i) {
        slowly()
        eval(code$first)
      })
    },
    replacement = function(rg_late, verb) {
      `raise<-` <- function(x, value) x * 0 + rg_late
      verb(1:4, function(i) {
        slowly()
        raise(i) <- 1
        i
      })
    },
    binding = function(rg_late, verb) {
      held <- new.env()
      makeActiveBinding("y", function() rg_late, held)
      verb(1:4, function(i) {
        slowly()
        held$y
      })
    },
    method = function(rg_late, verb) {
      format.rg_around_method <- function(x, ...) rg_late
      verb(1:4, function(i) {
        slowly()
        format(structure(1, class = "rg_around_method"))
      })
    },
    option = function(rg_late, verb) {
      withr::local_options(rg.around = function() rg_late)
      verb(1:4, function(i) {
        slowly()
        getOption("rg.around", stats::runif)()
      })
    },
    ended = function(rg_late, verb) {
      held <- (function(rg_inner) environment())(identity(rg_late))
      verb(1:4, function(i) {
        slowly()
        as.list(held)[[1L]]
      })
    },
    inline = function(rg_late, verb) {
      q <- quote(rg_late * 1)
      wrapper(1:4, function(i) if (i > 9) stop("never") else eval(q), verb)
    },
    workspace = function(rg_late, verb) {
      assign("rg_around_given", (function(rg_inner) function() rg_inner)(identity(rg_late)), globalenv())
      withr::defer(rm("rg_around_given", envir = globalenv()))
      verb(1:4, rlang::new_function(alist(i = ), quote({
        Sys.sleep(0.02)
        get("rg_around_given")()
      }), globalenv()))
    },
    call = function(rg_late, verb) {
      q <- quote(of())
      of <- function() rg_late
      wrapper(1:4, function(i) eval(q), function(X, FUN) wrapper(X, FUN, verb))
    }
  )
  if (requireNamespace("data.table", quietly = TRUE)) {
    cases$dots <- function(rg_late, verb) verb(1:4, function(i) {
      Sys.sleep(0.02)
      data.table::data.table(a = 1)[, a * ..rg_late]
    })
    environment(cases$dots) <- globalenv() # code of a package that does not import it is not data.table's
  }
  for (name in names(cases)) {
    set.seed(5)
    expected <- unname(cases[[name]](runif(1), sapply))
    verb <- function(X, FUN) unname(par_sapply(X, FUN, .on = 2, .control = settings))
    set.seed(5)
    expect_identical(cases[[name]](runif(1), verb), expected, info = name)
    # An argument of functions around it is a promise of a promise.
    by_dots <- function(...) (function(...) cases[[name]](...))(...)
    set.seed(5)
    expect_identical(by_dots(runif(1), verb), expected, info = paste(name, "by ..."))
  }
})

# A function whose argument nobody has used.
factory <- function(start) function(i) {
  slowly()
  start
}

test_that("it is found in attributes of data, in code and pairlists that hold functions, and around methods", {
  withr::local_preserve_seed()
  made <- function(x) function(...) x
  around <- function(x) environment()
  spread <- function(FUN, X = 1:4) par_lapply(X, FUN, .on = 2, .control = settings)
  cases <- list(
    number = function() {
      marked <- structure(1, f = made(runif(1)))
      spread(function(i) c(slowly(), attr(marked, "f")()))
    },
    element = function() spread(function(x) c(slowly(), attr(x, "f")()), rep(list(structure("a", f = made(runif(1)))), 4)),
    environment = function() {
      marked <- structure(1, e = around(runif(1)))
      spread(function(i) c(slowly(), attr(marked, "e")$x))
    },
    call = function() {
      code <- as.call(list(made(runif(1))))
      spread(function(i) c(slowly(), eval(code)))
    },
    body = function() {
      fun <- function(i) NULL
      body(fun) <- bquote(c(slowly(), .(made(runif(1)))()))
      spread(fun)
    },
    default = function() {
      fun <- function(i, f) c(slowly(), f())
      formals(fun)$f <- made(runif(1))
      spread(fun)
    },
    pairlist = function() {
      parts <- pairlist(f = made(runif(1)))
      spread(function(i) c(slowly(), parts$f()))
    },
    method = function() {
      print.rg_around <- made(runif(1))
      spread(function(i) c(slowly(), print(structure(1, class = "rg_around"))))
    },
    picked = function() {
      `$.rg_around` <- function(x, name) runif(1)
      record <- structure(list(a = 1), class = "rg_around")
      (function(p) spread(function(i) c(slowly(), p)))(record$a)
    },
    handed = function() {
      `$.rg_around` <- function(x, name) runif(1)
      record <- structure(list(a = 1), class = "rg_around")
      (function(...) spread(function(i) c(slowly(), sum(...))))(record$a)
    }
  )
  for (name in names(cases)) expect_true(is_one(cases[[name]]()), label = name)
  in_workspace <- function(code) eval(substitute(code), globalenv())
  suppressMessages(in_workspace(methods::setGeneric("rg_around", function(x) standardGeneric("rg_around"))))
  withr::defer(in_workspace(methods::removeGeneric("rg_around")))
  in_workspace(methods::setMethod("rg_around", "numeric", (function(y) function(x) y)(runif(1))))
  expect_true(is_one(spread(function(i) c(slowly(), rg_around(1)))))
})

test_that("one that code names is evaluated by the map, as the first element of lapply() would", {
  twice <- function(verb, a, b = a + 1) {
    first <- verb(1:2, function(i) b)
    a <- 100
    list(first, verb(1:2, function(i) b), b)
  }
  weighted <- function(verb, d, w = d$w / 2) {
    sums <- verb(1:2, function(i) sum(w))
    d <- d[1, , drop = FALSE]
    list(sums, sum(w))
  }
  d <- data.frame(w = 1:4)
  for (got in on_all(function(on) {
    verb <- function(X, FUN) par_lapply(X, FUN, .on = on, .control = settings)
    list(twice(verb, 1), weighted(verb, d))
  })) expect_identical(got, list(twice(lapply, 1), weighted(lapply, d)))
})

test_that("so it is around functions that only data or options name", {
  withr::local_preserve_seed()
  withr::defer(rm(list = ls(globalenv(), pattern = "^rg_spoken"), envir = globalenv()))
  assign("rg_spoken_name", "rg_spoken_f", envir = globalenv())
  cases <- list(
    element = function(map) map(rep("rg_spoken_f", 4), function(s) do.call(s, list(1))),
    list = function(map) {
      spoken <- list(fun = "rg_spoken_f")
      map(1:4, function(i) match.fun(spoken$fun)(i))
    },
    workspace = local(function(map) map(1:4, function(i) get(rg_spoken_name)(i)), globalenv()),
    text = function(map) {
      code <- "rg_spoken_f(1)"
      map(1:4, function(i) eval(parse(text = code)))
    },
    names = function(map) {
      spoken <- c(rg_spoken_f = 1)
      map(1:4, function(i) match.fun(names(spoken))(i))
    },
    levels = function(map) {
      spoken <- data.frame(fun = factor(rep("rg_spoken_f", 4)))
      map(1:4, function(i) match.fun(as.character(spoken$fun[[i]]))(i))
    },
    delayed = function(map) {
      spoken <- "rg_spoken_late"
      map(1:4, function(i) {
        slowly()
        get(spoken)
      })
    },
    held = function(map) {
      spoken <- "rg_spoken_list"
      map(1:4, function(i) get(spoken)$f(i))
    },
    around = function(map) {
      here <- factory(stats::runif(1))
      spoken <- "here"
      map(1:4, function(i) get(spoken)(i))
    },
    option = function(map) {
      withr::local_options(rg_spoken = factory(stats::runif(1)))
      map(1:4, function(i) getOption("rg_spoken")(i))
    }
  )
  map <- function(X, FUN) unname(par_sapply(X, FUN, .on = 2, .control = settings))
  for (name in names(cases)) {
    assign("rg_spoken_f", factory(stats::runif(1)), envir = globalenv())
    assign("rg_spoken_list", list(f = factory(stats::runif(1))), envir = globalenv())
    delayedAssign("rg_spoken_late", stats::runif(1), assign.env = globalenv())
    expect_identical(length(unique(cases[[name]](map))), 1L, info = name)
  }
})

test_that("so are all arguments that stand together where code takes them all", {
  withr::local_preserve_seed()
  number <- function(x) if (is.numeric(x)) x else 0
  takes <- list(
    as.list = function(frame) vapply(as.list(frame), number, 0),
    mget = function(frame) vapply(mget(setdiff(ls(frame), "frame"), envir = frame), number, 0),
    ls = function(frame) vapply(ls(frame), function(name) number(get(name, frame)), 0),
    eapply = function(frame) unlist(eapply(frame, number))
  )
  for (name in names(takes)) {
    take <- takes[[name]]
    f <- function(a, b) {
      frame <- environment()
      par_lapply(1:4, function(i) {
        slowly()
        take(frame)
      }, .on = 2, .control = settings)
    }
    expect_identical(length(unique(f(stats::runif(1), stats::runif(1)))), 1L, info = name)
  }
})

test_that("what nothing names is left to the function that it is an argument of", {
  said <- character()
  f <- function(X, then) {
    values <- par_sapply(X, function(i) i, .on = 2, .control = settings)
    said <<- c(said, "mapped")
    then
    values
  }
  expect_identical(f(1:2, said <- c(said, "then")), 1:2)
  expect_identical(said, c("mapped", "then"))
})

test_that("calls and the functions that parallel has by the same names have one value for all, too", {
  withr::local_preserve_seed()
  f <- function(x) {
    first <- par_call(mean(x), .control = settings)
    second <- par_call(x, .control = settings)
    c(par_value(first) == mean(x), identical(par_value(second), x))
  }
  expect_identical(f(runif(3)), c(TRUE, TRUE))
  verbs <- list(
    function(FUN) unlist(mclapply(1:4, FUN, mc.cores = 2L, mc.progress = FALSE)),
    function(FUN) mcmapply(FUN, 1:4, mc.cores = 2L),
    function(FUN) pvec(1:4, FUN, mc.cores = 2L)
  )
  for (verb in verbs) {
    g <- function(x) length(unique(verb(function(i) {
      Sys.sleep(0.02)
      i * 0 + x
    })))
    expect_identical(g(runif(1)), 1L)
  }
})

test_that("an argument that fails is looked at without a warning, though twice", {
  f <- function(x, ..., on) {
    around <- environment()
    named <- function(i) c(deparse(substitute(x, around)), deparse(substitute(list(...), around)))
    par_sapply(1:2, named, .on = on, .control = settings)
  }
  names <- c("rg_none + 1", "list(stop(rg_none))")
  expect_silent(got <- on_all(function(on) f(rg_none + 1, stop(rg_none), on = on)))
  for (found in got) expect_identical(found, cbind(names, names, deparse.level = 0))
})

test_that("an empty argument among those of the function around the map stays one", {
  m <- matrix(1:4, 2L)
  f <- function(..., verb) verb(1:2, function(i) sum(m[...]))
  expect_identical(on_all(function(on) f(, 1, verb = function(...) par_sapply(..., .on = on, .control = settings))),
    list(one = c(3L, 3L), forks = c(3L, 3L), pool = c(3L, 3L)))
})

test_that("strings in code that can be no names are not looked up", {
  long <- strrep("ACGT", 2501)
  bytes <- "\xff"
  Encoding(bytes) <- "bytes"
  f <- eval(substitute(function(i) c(nchar(A), nchar(B, "bytes")), list(A = long, B = bytes)), globalenv())
  expect_identical(par_lapply(1, f, .control = two_workers()), list(c(10004L, 1L)))
  expect_identical(par_value(par_call(f(1), .control = two_workers())), c(10004L, 1L))
  got <- fault_run(function() {
    options(warn = 2)
    f <- function(i) nchar(paste("gr\u00f6\u00dfe", i), "bytes")
    environment(f) <- list2env(list(late = 1), parent = globalenv())
    c(unlist(par_lapply(1:2, f)), unlist(regatta::mclapply(1:2, f)), par_value(par_call(nchar("\u4e2d", "bytes"))))
  }, env = c(LC_ALL = "C", LANG = "C"))
  expect_identical(got$value, c(9L, 9L, 9L, 9L, 3L), info = got$stderr)
})

test_that("what gives the same everywhere stays code for functions that take it as such", {
  withr::local_preserve_seed()
  x <- c(9, 0)
  captured <- function(verb) {
    by <- function(d, ..., v) verb(1:2, function(i) {
      codes <- rlang::enquos(...)
      lapply(c(codes, rlang::enquo(v)), rlang::eval_tidy, data = d)
    })
    by(data.frame(x = 1:3, date = 4:6), x > 2, date, mean(x), v = -x[2])
  }
  for (on in list(2L, NULL)) {
    verb <- function(X, FUN) par_lapply(X, FUN, .on = on, .control = two_workers())
    expect_identical(captured(verb), captured(lapply))
  }
  expect_identical(captured(function(X, FUN) regatta::mclapply(X, FUN, mc.cores = 2L)), captured(lapply))
  # After the map, too.
  after <- function(v) {
    par_lapply(1:2, function(i) paste("v", i), .control = two_workers())
    rlang::eval_tidy(rlang::enquo(v), list(x = 1))
  }
  expect_identical(after(x + 1), 2)
  # What it leads to has one value for all.
  drawn <- function(a) {
    (function(b, ...) par_sapply(1:4, function(i) b + sum(...) + length(slowly()), .control = two_workers()))(a * 2, a)
  }
  expect_true(is_one(drawn(runif(1))))
  makeActiveBinding("draw", function() runif(1), environment())
  by <- function(b) par_sapply(1:4, function(i) b + length(slowly()), .control = two_workers())
  expect_true(is_one(by(draw)))
})

test_that("an argument that is taken as code is code in every worker, with what it needs, and after the map", {
  withr::local_preserve_seed()
  x <- 9
  least <- 1
  over <- function(x) x > least
  tidy <- function(data, ...) lapply(rlang::enquos(...), rlang::eval_tidy, data = data)
  values <- function(quos, data) lapply(quos, rlang::eval_tidy, data = data)
  environment(tidy) <- asNamespace("rlang") # as if it were its own
  taken <- list(
    dots = function(verb, ...) verb(function(d) tidy(d, ...), rlang::enquos(...)),
    quos = function(verb, ...) verb(function(d) values(rlang::quos(...), d), rlang::enquos(...)),
    embraced = function(verb, v) verb(function(d) values(rlang::quos({{ v }}), d), rlang::enquo(v)),
    enquo = function(verb, v) verb(function(d) values(list(rlang::enquo(v)), d), rlang::enquo(v)),
    inner = function(verb, v) verb(function(d) (function() values(list(rlang::enquo(v)), d))(), rlang::enquo(v))
  )
  data <- rep(list(data.frame(x = 0:2)), 2L)
  fresh <- local_pool(2) # no test before has loaded packages there
  for (name in names(taken)) {
    got <- on_all(function(on) {
      taken[[name]](function(FUN, after) {
        values <- par_lapply(data, FUN, .on = on, .control = settings)
        list(unname(unlist(values)), after)
      }, over(identity(x)))
    }, fresh)
    for (each in got) {
      expect_identical(each[[1L]], rep(c(FALSE, FALSE, TRUE), 2L), info = name)
      after <- if (rlang::is_quosure(each[[2L]])) each[[2L]] else each[[2L]][[1L]]
      expect_identical(rlang::quo_get_expr(after), quote(over(identity(x))), info = name)
    }
  }
  # An argument of that name of another function is another one, wherever that stands; substitute() takes no less if
  # it has been evaluated; a name of nothing is that of a column.
  taker <- function(v) rlang::enquo(v)
  others <- list(
    beside = function(v) {
      inner <- function(v) rlang::enquo(v)
      par_sapply(1:4, function(i) {
        slowly(inner(i))
        v
      }, .on = 2, .control = settings)
    },
    within = function(v) {
      par_sapply(1:4, function(i) {
        slowly((function(v) rlang::enquo(v))(i))
        v
      }, .on = 2, .control = settings)
    },
    around = function(v) {
      par_sapply(1:4, function(i) {
        slowly(taker(i))
        v
      }, .on = 2, .control = settings)
    },
    substituted = function(v) {
      par_sapply(1:4, function(i) {
        slowly()
        if (nchar(deparse1(substitute(v))) > 0L) v
      }, .on = 2, .control = settings)
    },
    column = function(v) {
      par_sapply(1:4, function(i) {
        slowly(rlang::exprs(rg_column), rlang::quos(rg_column))
        v
      }, .on = 2, .control = settings)
    }
  )
  for (name in names(others)) expect_true(is_one(others[[name]](runif(1))), label = name)
})

test_that("functions of the user's are not those of rlang that take code, though they have their names", {
  withr::local_preserve_seed()
  for (name in c("exprs", "inject", "enquo", "quos")) {
    g <- eval(substitute(function(x) {
      NAME <- function(e) e$field
      par_sapply(1:4, function(i) {
        slowly()
        NAME(x)
      }, .on = 2, .control = settings)
    }, list(NAME = as.name(name))))
    expect_true(is_one(g(list(field = runif(1)))), label = name)
  }
  # A function that a call gives is none that has a name.
  called <- function(x) par_sapply(1:4, function(i) rlang::new_function(NULL, quote(x))(), .on = 2, .control = settings)
  expect_true(is_one(called(runif(1))))
})

test_that("code of a class with methods of its own is looked into as code", {
  for (generic in c("[", "[[", "as.list", "length", "unique", "$")) {
    registerS3method(generic, "rg_code", function(x, ...) stop("not to be called"), envir = baseenv())
  }
  withr::defer(rm(list = paste0(c("[", "[[", "as.list", "length", "unique", "$"), ".rg_code"),
    envir = get(".__S3MethodsTable__.", baseenv())))
  k <- 2
  code <- structure(quote(k + (function(j, ...) sum(j, ...))(1)), class = "rg_code")
  mask <- list2env(list(`~` = function(...) stop("another one"), y = c(1, 3, 2, 5), x = 1:4), parent = globalenv())
  fit <- evalq(stats::lm(stats::as.formula("y ~ x", environment())), list2env(list(y = c(1, 3, 2, 5), x = 1:4)))
  environment(fit$terms) <- mask
  f <- function(X, late, ..., on) {
    par_lapply(X, function(x) if (inherits(x, "lm")) stats::AIC(x) + late else eval(unclass(x)) + late,
      .on = on, .control = settings)
  }
  got <- on_all(function(on) {
    list(f(list(code, code), length(1:3), on = on), f(list(fit), sqrt(4) + length(fit), fit, on = on), f(list(fit), 1, on = on))
  })
  expected <- list(list(6, 6), list(stats::AIC(fit) + 2 + length(fit)), list(stats::AIC(fit) + 1))
  for (name in names(got)) expect_equal(got[[name]], expected, label = name)
})

test_that("an argument that may fail, or leaves a loop of its own, is evaluated once", {
  withr::local_preserve_seed()
  by <- function(v) par_sapply(1:4, function(i) v + length(slowly()), .on = 2, .control = settings)
  default <- function(n, v = if (n > 0) runif(1) else stop("n must be positive")) {
    par_sapply(seq_len(n), function(i) v + length(slowly()), .on = 2, .control = settings)
  }
  drawn <- expression(
    by({
      s <- runif(1)
      if (is.na(s)) stop("bad")
      s
    }),
    by(switch("r", r = runif(1), rlang::abort("unknown"))),
    by({
      r <- 0
      for (k in 1:3) {
        if (k == 2) next
        r <- r + runif(1)
      }
      r
    }),
    by({
      repeat if (runif(1) > 0) break
      runif(1)
    }),
    by({
      while (TRUE) if (runif(1) > 0) break
      runif(1)
    }),
    by({
      code <- quote(return(1))
      runif(1)
    }),
    by(sapply(1, function(k) return(runif(1)))),
    default(4)
  )
  for (code in drawn) expect_true(is_one(eval(code)), label = deparse1(code))
  # What has failed fails where it is used, as for the first time.
  after <- function(x, given) {
    par_sapply(1:2, function(i) if (i > 5) x else i, .on = 2, .control = settings)
    list(given(x), tryCatch(x, error = conditionMessage, warning = conditionMessage))
  }
  expect_identical(after(stop("never"), function(x) substitute(x)), list(quote(x), "never"))
  missed <- function(x = stop("never")) {
    par_sapply(1:2, function(i) if (i > 5) x else i, .on = 2, .control = settings)
    missing(x)
  }
  expect_true(missed())
})

test_that("an argument with a method or an active field in it has one value for all", {
  withr::local_preserve_seed()
  local_mocked_s3 <- function(generic, class, method, frame = parent.frame()) {
    registerS3method(generic, class, method, envir = baseenv())
    withr::defer(rm(list = paste(generic, class, sep = "."), envir = get(".__S3MethodsTable__.", baseenv())), frame)
  }
  for (generic in c("+", "<", "$", "[", "[[", "mean", "length")) {
    local_mocked_s3(generic, "rg_random", function(...) runif(1))
  }
  rg_with <- methods::setClass("rg_with", slots = c(held = "list"), where = globalenv())
  withr::defer(methods::removeClass("rg_with", where = globalenv()))
  object <- structure(list(k = 1), class = "rg_random")
  field <- new.env()
  makeActiveBinding("draw", function() runif(1), field)
  field$inner <- field
  held <- list(object = object, field = field, fields = list(field))
  slots <- rg_with(held = held)
  at <- "field"
  by <- function(v) par_sapply(1:4, function(i) v + length(slowly()), .control = two_workers(seed = FALSE))
  by_other <- function(u) by(u + 1)
  drawn <- list(
    quote(by(object + 1)), quote(by(2 < object)), quote(by(object$k)), quote(by(object[1])), quote(by(mean(object))),
    quote(by(length(object) * 2)), quote(by(field$draw)), quote(by(field$inner$draw)), quote(by(field[["draw"]])),
    quote(by(held$object$k)), quote(by(held$object + 1)), quote(by(held$field$draw)), quote(by(held[["object"]] + 1)),
    quote(by(held[[at]]$draw)), quote(by(slots@held$object + 1)), quote(by(slots@held[[2]]$draw)),
    quote(by(held[2][[1]]$draw)), quote(by(held$fields[[1]]$draw)), quote(by_other(object$k)), quote(by_other(object)),
    quote(by(field$draw + 1)), quote(by(list(object)[[1]]$k)), quote(by(c(1, 2) + object))
  )
  for (code in drawn) {
    set.seed(5)
    expected <- eval(do.call(substitute, list(code, list(by = function(v) sapply(1:4, function(i) v + 0)))))
    set.seed(5)
    got <- eval(code)
    if (!identical(code[[1L]], quote(by_other))) expect_identical(got, expected, info = deparse(code))
    expect_true(is_one(got), label = deparse1(code))
  }
  # These are left for what takes code.
  object <- NULL
  options <- list(least = 2, deep = list(name = "x"))
  r6 <- structure(list2env(list(least = 2)), class = c("rg_none", "R6"))
  table <- data.frame(least = 2)
  day <- as.Date("2024-01-01")
  x <- 9
  tidy <- function(data, ...) lapply(rlang::enquos(...), rlang::eval_tidy, data = data)
  environment(tidy) <- asNamespace("stats") # of a package that is not known for that
  on_columns <- function(...) {
    data <- data.frame(x = 1:3, when = as.Date("2024-01-01") + 0:2)
    par_lapply(1, function(i) tidy(data, ...), .control = two_workers())[[1L]]
  }
  got <- on_columns(
    x > options$least, x > options[["least"]], x > r6$least, x > table$least[1], when > day, x > length(options),
    nchar(options$deep$name) < x
  )
  expect_identical(unname(got), c(rep(list(c(FALSE, FALSE, TRUE)), 4L), list(c(FALSE, TRUE, TRUE)), list(1:3 > 2L),
    list(1:3 > 1L)))
})

test_that("nothing is left behind", {
  parallel::stopCluster(standing)
  end_servers()
  expect_no_detritus(detritus)
})
