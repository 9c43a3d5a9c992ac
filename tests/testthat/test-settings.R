# What code finds of the session in workers that do not inherit it: on each kind of them the same as here.
withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

# Two packages with a function of the same name.
library_of <- function(names) {
  lib <- tempfile("lib-")
  source <- tempfile("src-")
  dir.create(lib)
  for (name in names) {
    at <- file.path(source, name)
    dir.create(file.path(at, "R"), recursive = TRUE)
    depends <- if (name == "rgneeds") "Depends: rgone"
    writeLines(c(paste("Package:", name), "Version: 1.0", "Title: T", depends), file.path(at, "DESCRIPTION"))
    writeLines(sprintf("export(rg_both, %s_own)", name), file.path(at, "NAMESPACE"))
    loading <- "set <- function() { Sys.setenv(RG_LOADED = \"package\"); options(rg_loaded = \"package\") }"
    writeLines(
      c(
        sprintf("rg_both <- %s_own <- function() \"%s\"", name, name),
        if (name == "rgsets") c(loading, ".onLoad <- function(lib, pkg) set()")
      ),
      file.path(at, "R", "code.R")
    )
  }
  out <- system2(file.path(R.home("bin"), "R"),
    c("CMD", "INSTALL", "--no-docs", "--no-test-load", "--no-byte-compile", "-l", shQuote(lib), file.path(source, names)),
    stdout = TRUE, stderr = TRUE, env = "R_TESTS="
  )
  unlink(source, recursive = TRUE)
  if (!all(dir.exists(file.path(lib, names)))) stop(paste(out, collapse = "\n"))
  lib
}
lib <- library_of(c("rgone", "rgtwo", "rgsets", "rgneeds"))
paths <- .libPaths()

.libPaths(c(lib, paths))
started <- places_start()
places <- started$places
.libPaths(paths)
for (place in places) par_lapply(1L, identity, .on = place, .control = on_local())
assign("rg_everywhere", everywhere_on(places), globalenv())
everywhere <- get("rg_everywhere", globalenv())
near <- c("local", "psock")

test_that("verbs that are called close to the limit of nested calls give their values, or name the limit", {
  code <- function() {
    suppressMessages(library(regatta))
    forked <- par_control(workers = 1L, progress = FALSE, seed = FALSE)
    cluster <- cluster_local(1L)
    streamed <- function() {
      stream <- par_stream(1:3, identity, .control = forked)
      lapply(1:3, function(i) par_next(stream))
    }
    delayed <- function(...) par_lapply(1:3, function(i) c(...)[[i]], .control = forked)
    verbs <- list(
      delayed = function() delayed(seq_len(length(1:3) + 0L)), # first: packages are loaded then
      par_lapply = function() par_lapply(1:3, function(i) i, .control = forked),
      par_mapply = function() par_mapply(`+`, 1:3, 0L, .control = forked), par_stream = streamed,
      par_call = function() par_value(par_call(1:3, .control = forked)),
      mclapply = function() mclapply(1:3, function(i) i, mc.cores = 2L),
      in_session = function() mclapply(1:3, function(i) i, mc.cores = 1L),
      shm_map = function() as.integer(shm_map(1:3, identity, .control = forked)),
      cluster = function() par_lapply(1:3, function(i) i, .on = cluster),
      failing = function() par_lapply(1:3, function(i) if (i < 3L) i else tryCatch(stop("z"), error = function(e) i))
    )
    one <- function(name, depth, limit) {
      call <- function(k) if (k > 0L) call(k - 1L) else verbs[[name]]()
      options(expressions = limit)
      got <- tryCatch(unlist(call(depth)), error = conditionMessage)
      after <- getOption("expressions")
      options(expressions = 5000)
      told <- is.character(got) && grepl("nested too deeply.*expressions", got)
      if (after != limit) paste("left", after) else if (identical(got, 1:3)) "values" else if (told) "told" else got
    }
    found <- lapply(c(60L, 500L), function(limit) {
      lapply(names(verbs), function(name) {
        # A worker is then at any step of its way to an element.
        step <- if (limit == 500L) 12L else if (name == "par_lapply") 1L else 6L
        depths <- limit - seq(60L, 0L, by = -step)
        vapply(depths, function(depth) one(name, depth, limit), "")
      })
    })
    parallel::stopCluster(cluster)
    found
  }
  got <- fault_run(code, timeout = 240)$value
  for (of_limit in got) {
    for (ends in of_limit) {
      expect_identical(setdiff(ends, c("values", "told")), character())
      # From some depth on it is the limit.
      expect_identical(ends, sort(ends, decreasing = TRUE))
      expect_identical(ends[[1L]], "values")
    }
  }
})

test_that("the workspace of a worker is what the map has sent, and goes with it", {
  for (place in names(places)) {
    parallel::clusterCall(places[[place]], function() {
      assign("rg_kept", 1, globalenv())
      NULL
    })
    map <- function(fun) unlist(par_lapply(1:2, fun, .on = places[[place]], .control = on_local()))
    count <- function(i) {
      rg_count <<- if (exists("rg_count")) rg_count + 1 else 1
      rg_kept <<- 5
      rg_count
    }
    environment(count) <- globalenv()
    expect_identical(c(map(count), map(count)), c(1, 2, 1, 2), label = place)
    left <- parallel::clusterCall(places[[place]], function() {
      c(mget("rg_kept", globalenv()), setdiff(ls(globalenv(), all.names = TRUE), c("rg_kept", ".Random.seed")))
    })
    expect_identical(left, list(list(rg_kept = 1)), label = place)
    parallel::clusterCall(places[[place]], function() rm(rg_kept, envir = globalenv()))
  }
})

test_that("packages are on the search path of a worker as on that of the session, for a map", {
  before <- lapply(places, parallel::clusterCall, search)
  withr::defer(for (name in c("rgone", "rgtwo")) unloadNamespace(name))
  .libPaths(c(lib, paths))
  withr::defer(.libPaths(paths))
  script_in_workspace({
    library(rgone)
    library(rgtwo)
    rg_both_of <- function(i) c(rg_both(), rgone_own())
    rg_two <- function(i) rg_both()
    stopifnot(identical(rg_everywhere(lapply(1, rg_both_of)), list(c("rgtwo", "rgone"))))
    rg_everywhere(lapply(1, rg_two))
    detach("package:rgtwo")
    rg_everywhere(lapply(1, rg_two))
    library(rgtwo)
    rg_everywhere(lapply(1, rg_both_of))
    rg_everywhere(lapply(1:2, function(i) {
      suppressWarnings(library(rgone, pos = 2L + i))
      detach("package:rgtwo")
      library(rgtwo)
      rg_both()
    }))
    detach("package:rgone")
    detach("package:rgtwo")
  })
  expect_identical(lapply(places, parallel::clusterCall, search), before)
})

test_that("what a worker has attached gives way to a map and is put back: packages that others need, and lists", {
  withr::defer(for (name in c("rgneeds", "rgone", "rgtwo")) unloadNamespace(name))
  .libPaths(c(lib, paths))
  withr::defer(.libPaths(paths))
  taken <- function() {
    list(search(), as.environment("package:rgneeds")$.Depends, rgtwo_own(), rg_listed, rg_both())
  }
  environment(taken) <- globalenv()
  given <- function(lib) {
    .libPaths(c(lib, .libPaths()))
    library(rgtwo)
    library(rgneeds)
    attach(list(rg_listed = 1), name = "rglist")
    suppressWarnings(attach(list(rg_listed = 2), name = "rgagain"))
  }
  environment(given) <- globalenv()
  fresh <- c(list(local = cluster_local(1L)), if (!is.null(started$psock)) list(psock = cluster_start(1L)$cluster))
  withr::defer(for (one in fresh) parallel::stopCluster(one))
  for (place in names(fresh)) parallel::clusterCall(fresh[[place]], given, lib)
  before <- lapply(fresh, parallel::clusterCall, taken)
  library(rgtwo)
  suppressWarnings(library(rgneeds))
  withr::defer(for (name in c("rgneeds", "rgone", "rgtwo")) detach(paste0("package:", name), character.only = TRUE))
  two <- function(i) c(rgtwo_own(), rg_both())
  both <- function(i) c(rgneeds_own(), rgone_own(), rgtwo_own(), rg_both())
  environment(two) <- environment(both) <- globalenv()
  for (place in names(fresh)) {
    for (fun in list(two, both, two)) {
      expect_identical(par_lapply(1, fun, .on = fresh[[place]], .control = on_local()), lapply(1, fun), label = place)
    }
    # Only a worker that was not replaced has what it was given.
    expect_identical(parallel::clusterCall(fresh[[place]], taken), before[[place]], label = place)
  }
})

test_that("a map has the options of the session, on this machine also directory, variables and libraries", {
  look <- function() list(
    options("digits", "OutDec", "contrasts", "scipen", "stringsAsFactors", "rg.new"), Sys.getenv("TZ"), getwd(),
    .libPaths(), Sys.getenv("RG_NEW", NA)
  )
  before <- lapply(places, parallel::clusterCall, look)
  local({
    withr::local_options(
      digits = 3, OutDec = ",", contrasts = c("contr.sum", "contr.poly"), scipen = 10, rg.new = list(1, "a")
    )
    everywhere(lapply(1:2, function(i) {
      d <- data.frame(y = c(1, 3, 2, 5, 4, 7), f = gl(3, 2))
      list(format(pi * 1e7), coef(lm(y ~ f, d)), getOption("rg.new"))
    }))
    withr::local_envvar(TZ = "Asia/Tokyo", RG_NEW = "x=y")
    withr::local_dir(lib)
    withr::local_libpaths(c(lib, paths))
    everywhere(lapply(1:2, function(i) {
      list(format(as.POSIXct(0, origin = "1970-01-01")), getwd(), .libPaths(), Sys.getenv("RG_NEW"), file.exists("rgone"))
    }), near)
  })
  expect_identical(lapply(places, parallel::clusterCall, look), before)
  # What an element changes is for no later map.
  everywhere(lapply(1, function(i) getOption("rg.new")))
  for (place in places) {
    par_lapply(1:2, function(i) {
      options(digits = 4, rg.new = 1)
      Sys.setenv(RG_NEW = "1", TZ = "Asia/Tokyo")
      setwd("/")
    }, .on = place, .control = on_local())
  }
  expect_identical(lapply(places, parallel::clusterCall, look), before)
})

test_that("a node of parallel that is where it was started goes along with the session, from the first map on", {
  skip_unless_linux()
  dirs <- normalizePath(c(withr::local_tempdir(), withr::local_tempdir(), withr::local_tempdir()))
  withr::local_envvar(PWD = "/") # the session has gone elsewhere itself
  begun <- withr::with_dir(dirs[[1L]], cluster_start(2L))
  withr::defer(begun$stop())
  nodes <- begun$cluster
  where <- function() {
    vapply(1:2, function(k) par_sapply(1L, function(i) getwd(), .on = nodes[k], .control = on_local()), "")
  }
  withr::local_dir(dirs[[2L]])
  parallel::clusterCall(nodes[2L], setwd, dirs[[3L]]) # on purpose
  expect_identical(where(), dirs[c(2L, 3L)])
  expect_identical(parallel::clusterCall(nodes, getwd), as.list(dirs[c(1L, 3L)]))
  expect_identical(withr::with_dir(dirs[[1L]], where()), dirs[c(1L, 1L)])
  expect_identical(where(), dirs[c(2L, 3L)])
  expect_identical(parallel::clusterCall(nodes, getwd), as.list(dirs[c(1L, 3L)]))
})

test_that("options are those of the session in a call, from the first one on, and what it has not is the worker's", {
  withr::local_options(rg.both = "session", rg.gone = "session", digits = 6)
  begun <- list(psock = cluster_start(1L))
  if (!is.null(places$agent)) begun$agent <- shell_cluster_start(1)
  fresh <- c(list(local = cluster_local(1L, packages = "tools")), lapply(begun, `[[`, "cluster"))
  withr::defer({
    for (one in begun) one$stop()
    parallel::stopCluster(fresh$local)
  })
  look <- function(i) unlist(options("digits", "rg.both", "rg.own"))
  environment(look) <- globalenv()
  for (place in names(fresh)) {
    there <- fresh[[place]]
    seen <- function() par_lapply(1, look, .on = there, .control = on_local())[[1L]]
    told <- function() parallel::clusterCall(there, look, 1)[[1L]]
    for (round in 1:2) { # the first call, and a later one
      parallel::clusterCall(there, function(round) options(digits = 3L, rg.both = "worker", rg.own = round), round)
      expect_identical(seen(), c(digits = "6", rg.both = "session", rg.own = as.character(round)), label = place)
      expect_identical(told(), c(digits = "3", rg.both = "worker", rg.own = as.character(round)), label = place)
    }
    withr::with_options(
      list(digits = 9L, rg.own = "session"),
      expect_identical(seen(), c(digits = "9", rg.both = "session", rg.own = "session"), label = place)
    )
    expect_identical(seen()[["rg.own"]], "2", label = place)
  }
  # What the session had when it started workers and has no more.
  withr::local_options(rg.gone = NULL)
  for (place in fresh) {
    expect_identical(par_lapply(1, function(i) getOption("rg.gone"), .on = place, .control = on_local()), list(NULL))
  }
})

test_that("functions of R that options hold are there in a call, and those of the session are the worker's own", {
  own <- function() {
    options(rg.maker = function(x) x * 10)
    NULL
  }
  for (place in names(places)) {
    there <- places[[place]]
    parallel::clusterCall(there, own)
    look <- function(i) getOption("rg.maker", identity)(i)
    seen <- function() par_lapply(1, look, .on = there, .control = on_local())[[1L]]
    expect_identical(seen(), 10, label = place)
    # In the workspace, in a list, and with what a call has made.
    withr::with_options(list(rg.maker = eval(quote(function(x) x * 7), globalenv())), {
      expect_identical(seen(), 10, label = place)
    })
    withr::with_options(list(rg.maker = list(eval(quote(function(x) x * 7), globalenv()))), {
      expect_identical(seen(), 10, label = place)
    })
    times <- 7
    withr::with_options(list(rg.maker = evalq(local(function(x) x * times), environment())), {
      expect_identical(seen(), 10, label = place)
    })
    # It would be found in the package, were it not for what it uses of the call.
    frame <- new.env(parent = asNamespace("stats"))
    frame$times <- 7
    withr::with_options(list(rg.maker = evalq(function(x) x * times, frame)), {
      expect_identical(seen(), 10, label = place)
    })
    parallel::clusterCall(there, own)
    expect_identical(seen(), 10, label = place)
    parallel::clusterCall(there, function() options(rg.maker = NULL))
  }
  everywhere(lapply(1:2, function(i) capture.output(str(1:100))))
  everywhere(lapply(1, function(i) names(getOption("str"))))
  withr::with_options(list(str = utils::strOptions(vec.len = 1)), {
    everywhere(lapply(1:2, function(i) capture.output(str(1:100))))
  })
  withr::with_options(list(na.action = stats::na.exclude, rg.primitive = sum), {
    model <- function(i) length(resid(lm(c(1, NA, 3, 4) ~ c(1, 2, 3, 5))))
    expect_identical(everywhere(lapply(1, function(i) c(model(i), getOption("rg.primitive")(2)))), list(c(4, 2)))
  })
  everywhere(lapply(1, function(i) getOption("rg.primitive")))
  for (place in names(places)) {
    left <- parallel::clusterCall(places[[place]], function() list(names(getOption("str")), getOption("na.action")))
    expect_identical(left, list(list(names(getOption("str")), "na.omit")), label = place)
  }
  # Also of a session that has another function there, or none, when it starts workers.
  withr::with_options(list(str = utils::strOptions(formatNum = function(x, ...) stop("of the session"))), {
    begun <- cluster_local(1L)
    withr::defer(parallel::stopCluster(begun))
    shown <- par_lapply(1, function(i) capture.output(str(1:3)), .on = begun, .control = on_local())
    expect_identical(shown, list(" int [1:3] 1 2 3"))
  })
  # And of one that has put a function of its own in place of what workers were started with: they keep that.
  given <- withr::with_options(list(rg.given = stats::median), {
    given <- cluster_local(1L, packages = "splines") # a server of its own
    par_lapply(1, identity, .on = given, .control = on_local())
    given
  })
  withr::defer(parallel::stopCluster(given))
  withr::with_options(list(rg.given = function(x) times), {
    kept <- par_lapply(1, function(i) getOption("rg.given", length)(c(1, 2, 6)), .on = given, .control = on_local())
    expect_identical(kept, list(2))
  })
})

test_that("strings are compared by ICU as in the session, and an element changes that for its call alone", {
  skip_if_not(capabilities("ICU"), "R is built without ICU")
  # In a session of its own: comparing values, testthat sets the locale, with which R forgets how to compare strings.
  code <- function() {
    suppressMessages(library(regatta))
    sorted <- function(i) sort(c("a", "B", "A", "b", "\u00e4", "z"))
    change <- function(i) {
      icuSetCollate(locale = "ASCII")
      NULL
    }
    told <- function() c(sort(c("a", "B", "A", "b")), icuGetCollate())
    environment(told) <- globalenv()
    psock <- parallel::makePSOCKcluster(1L)
    parallel::clusterCall(psock, .libPaths, .libPaths())
    places <- list(local = cluster_local(1L), psock = psock)
    on.exit(for (place in places) parallel::stopCluster(place))
    for (place in places) par_lapply(1, sorted, .on = place)
    seen <- lapply(c("ASCII", "none", "da", "default", "ASCII", "default"), function(locale) {
      icuSetCollate(locale = locale)
      fresh <- cluster_local(1L)
      on.exit(parallel::stopCluster(fresh))
      c(list(sorted(1)), lapply(c(places, list(fresh)), function(place) par_lapply(1, sorted, .on = place)[[1L]]))
    })
    # With a locale R forgets how, until it compares strings again.
    Sys.setlocale("LC_COLLATE", Sys.getlocale("LC_COLLATE"))
    anew <- lapply(places, function(place) par_lapply(1, sorted, .on = place)[[1L]])
    seen <- c(seen, list(c(list(sorted(1)), anew)))
    left <- lapply(places, function(place) {
      before <- parallel::clusterCall(place, told)
      par_lapply(1, change, .on = place)
      list(before, parallel::clusterCall(place, told))
    })
    list(seen = seen, left = left)
  }
  got <- fault_run(code, timeout = 120)$value
  for (round in c(got$seen, got$left)) {
    for (there in round[-1L]) expect_identical(there, round[[1L]])
  }
  expect_gt(length(unique(lapply(got$seen, `[[`, 1L))), 1L)
})

test_that("what an element sets goes with its call, also where a package is loaded meanwhile; what that sets stays", {
  for (place in places) {
    loads <- function(i, lib) {
      Sys.setenv(RG_SET = "element")
      options(rg_set = "element")
      loadNamespace("rgsets", lib.loc = lib)
      1L
    }
    environment(loads) <- globalenv()
    par_lapply(1L, loads, lib = lib, .on = place, .control = on_local())
    asks <- function(i) list(Sys.getenv("RG_SET", NA), getOption("rg_set"), Sys.getenv("RG_LOADED"), getOption("rg_loaded"))
    environment(asks) <- globalenv()
    got <- par_lapply(1L, asks, .on = place, .control = on_local())[[1L]]
    expect_identical(got, list(NA_character_, NULL, "package", "package"))
    parallel::clusterCall(place, function() {
      Sys.unsetenv("RG_LOADED")
      options(rg_loaded = NULL)
      unloadNamespace("rgsets")
    })
  }
})

test_that("what elements attach, register, hook, limit and mask is gone after the call, and what was there is there", {
  unpatched <- function() {
    list(
      search = search(), quantile = stats::quantile(structure(1, class = "rg_left"), "q"),
      day = mean(as.Date("2020-01-01")), left = utils::head(structure(1:3, class = "rg_left"), 1),
      umask = format(Sys.umask(NA)), hooks = getHook("rg_hook"), held = get0("rg_held"), gone = getHook("rg_gone"),
      level = base::get0("rg_level", as.environment("rg_own")), class = methods::isClass("rg_left_class"),
      workspace = ls(globalenv(), all.names = TRUE), option = getOption("rg_left")
    )
  }
  environment(unpatched) <- globalenv()
  leaves <- function(i) {
    for (k in 1:2) {
      attach(list(quantile = function(...) "left", rg_held = "left"), name = "rg_left", warn.conflicts = FALSE)
    }
    registerS3method("quantile", "rg_left", function(x, ...) "left")
    registerS3method("mean", "Date", function(x, ...) "left")
    registerS3method("head", "rg_left", function(x, ...) "left")
    registerS3method("print", "acf", function(x, ...) "left")
    Sys.umask("077")
    setHook("rg_hook", function() "left")
    setHook("rg_gone", NULL, "replace")
    methods::setClass("rg_left_class", representation(a = "numeric"), where = globalenv())
    options(rg_left = "left")
    assign("rg_level", "left", as.environment("rg_own"))
    assign("rg_other", "left", as.environment("rg_own"))
    setTimeLimit(elapsed = 0.6)
    setSessionTimeLimit(elapsed = 0.6)
    i
  }
  environment(leaves) <- globalenv()
  for (place in places) {
    parallel::clusterEvalQ(place, {
      registerS3method("quantile", "rg_left", function(x, ...) "mine")
      registerS3method("head", "rg_left", function(x, ...) "mine")
      setHook("rg_gone", function() "mine")
      attach(list(rg_level = "mine"), name = "rg_own")
      NULL
    })
    before <- parallel::clusterCall(place, unpatched)[[1L]]
    expect_identical(before[c("quantile", "left", "level")], list(quantile = "mine", left = "mine", level = "mine"))
    expect_identical(par_lapply(1:2, leaves, .on = place, .control = on_local()), list(1L, 2L))
    # Longer than the limit; each process has a zero of its own for what proc.time() says.
    waits <- function(i, begun = proc.time()[[3L]]) while (proc.time()[[3L]] - begun < 0.7) Sys.sleep(0.05)
    par_lapply(1:2, waits, .on = place, .control = on_local())
    expect_identical(parallel::clusterCall(place, unpatched)[[1L]], before)
    # A promise of package stats until the element has put another one in its place.
    found <- parallel::clusterCall(place, utils::getS3method, "print", "acf")
    expect_identical(found, list(utils::getS3method("print", "acf")))
    expect_identical(parallel::clusterCall(place, function() ls(as.environment("rg_own")))[[1L]], "rg_level")
    parallel::clusterEvalQ(place, {
      rm("quantile.rg_left", envir = getNamespace("stats")$.__S3MethodsTable__.)
      rm("head.rg_left", envir = getNamespace("utils")$.__S3MethodsTable__.)
      setHook("rg_gone", NULL, "replace")
      detach("rg_own")
      NULL
    })
  }
})

test_that("elements on this machine create files with the umask that the session has now", {
  old <- Sys.umask("027")
  withr::defer(Sys.umask(old))
  asks <- function(i) format(Sys.umask(NA))
  for (place in places[near]) {
    expect_identical(par_lapply(1:2, asks, .on = place, .control = on_local()), list("27", "27"))
    expect_identical(parallel::clusterCall(place, asks, 1)[[1L]], format(old))
  }
})

test_that("what was set in the workers themselves stays theirs", {
  for (place in places) {
    parallel::clusterCall(place, function(dir) {
      Sys.setenv(RG_OWN = "mine")
      setwd(dir)
    }, lib)
    look <- function(i) list(Sys.getenv("RG_OWN"), basename(getwd()))
    par_lapply(1:2, function(i) Sys.setenv(RG_OWN = "other"), .on = place, .control = on_local())
    expect_identical(
      par_lapply(1:2, look, .on = place, .control = on_local()), rep(list(list("mine", basename(lib))), 2)
    )
    parallel::clusterCall(place, function(dir) {
      Sys.unsetenv("RG_OWN")
      setwd(dir)
    }, getwd())
  }
})

test_that("what a function has got in `...` and not looked at yet goes with the functions within", {
  script_in_workspace({
    letters <- 5 # base R has one, too
    rg_k <- 2
    rg_times <- function(x) x * rg_k
    rg_around <- function(map, f, ...) map(1:2, function(i) f(i, ...))
    rg_first <- function(map, ...) map(1:2, function(i) i * ..1 + ...elt(1) + ...length())
    rg_never <- function(map, ...) map(1:2, function(i) if (i > 5) ..1 else i)
    rg_everywhere(rg_around(lapply, function(x, k) x * k, letters))
    rg_everywhere(rg_around(lapply, function(x, k) k(x), rg_times))
    rg_everywhere(rg_first(lapply, letters))
    rg_everywhere(rg_never(lapply, stop("never looked at")))
  })
})

test_that("what functions and formulas in short lists among arguments and elements use goes with them", {
  script_in_workspace({
    letters <- c("X", "Y") # base R has one, too
    rg_pick <- list(a = function(k) letters[k], m = list(y ~ I(letters)))
    rg_everywhere(lapply(1:2, function(i, q) q$a(i), q = rg_pick))
    rg_everywhere(lapply(list(rg_pick, rg_pick), function(x) x$a(2)))
    rg_everywhere(lapply(1, function(i, q) model.frame(q$m[[1L]], data.frame(y = 1:2))[[2L]], q = rg_pick))
  })
})

test_that("what code names by strings, or in a formula of another object, is sent; else the error says so", {
  script_in_workspace({
    rg_z <- 3
    rg_own <- function(x) x * rg_z
    rg_data <- data.frame(u = c(1, 2, 4))
    rg_formula <- u ~ rg_v
    rg_v <- c(2, 1, 5)
    rg_list <- list(rg_own)
    rg_everywhere(lapply(1:2, function(i) {
      list(
        get("rg_z"), exists("rg_z"), mget(c("rg_z", "rg_v"), envir = globalenv()), sapply(1:2, "rg_own"),
        do.call("rg_own", list(i)), eval(parse(text = "rg_z + 1")), coef(lm(rg_formula, rg_data)), rg_list[[1L]](i)
      )
    }))
  })
  assign("rg_z", 3, globalenv())
  withr::defer(rm("rg_z", envir = globalenv()))
  for (place in places) {
    hidden <- function(i) eval(as.name(paste0("rg_", "z")))
    cnd <- expect_error(
      par_lapply(1:2, hidden, .on = place, .control = on_local()), class = "regatta_error_element"
    )
    expect_match(paste(cnd$body, collapse = "\n"), "`rg_z` is a variable of the session's workspace that was not sent")
    missing <- function(i) eval(as.name(paste0("rg_", "nowhere")))
    cnd <- expect_error(par_lapply(1:2, missing, .on = place, .control = on_local()))
    expect_no_match(paste(cnd$body, collapse = "\n"), "not sent")
  }
})

test_that("what a worker has under a name of the session is not there in a call that was not sent the session's", {
  variables <- c("rg_a1", "rg_active", "rg_fixed", "rg_late")
  for (name in variables) assign(name, 2, globalenv())
  withr::defer(suppressWarnings(rm(list = variables, envir = globalenv())))
  assign("rg_call", function(i) get(paste0("rg_", i)), globalenv())
  withr::defer(rm("rg_call", envir = globalenv()))
  looks <- get("rg_call", globalenv())
  environment(looks) <- globalenv()
  programs <- cluster_local(1L, start = "parallel")
  withr::defer(parallel::stopCluster(programs))
  for (cl in list(places$local, places$psock, programs)) {
    parallel::clusterEvalQ(cl, {
      rg_a1 <- 1
      makeActiveBinding("rg_active", function() 1, globalenv())
      rg_fixed <- 1
      lockBinding("rg_fixed", globalenv())
      delayedAssign("rg_late", rg_own - 4)
      rg_own <- 5
      NULL
    })
    map <- function(X, FUN) par_lapply(X, FUN, .on = cl, .control = on_local())
    for (again in 1:2) {
      for (name in variables) {
        cnd <- expect_error(map(sub("rg_", "", name), looks), class = "regatta_error_element")
        expect_match(paste(cnd$body, collapse = "\n"), paste0("`", name, "` is a variable .* not sent"))
      }
      # What only the worker has is there, and what code is seen to need is the session's.
      expect_identical(map("own", looks), list(5))
      named <- function(i) list(force(rg_a1), get(paste0("rg_", i)))
      environment(named) <- globalenv()
      expect_identical(map("a1", named), list(list(2, 2)))
    }
    # Where the session has none it counts again, and is as it was.
    rm(list = "rg_a1", envir = globalenv())
    expect_identical(map("a1", looks), list(1))
    assign("rg_a1", 2, globalenv())
    here <- parallel::clusterEvalQ(cl, {
      rg_own <- 6
      list(
        rg_a1, bindingIsActive("rg_active", globalenv()), bindingIsLocked("rg_fixed", globalenv()), rg_fixed,
        bindingIsLocked("rg_a1", globalenv()), rg_late
      )
    })
    expect_identical(here, list(list(1, TRUE, TRUE, 1, FALSE, 2)))
    parallel::clusterEvalQ(cl, rm(list = ls(pattern = "^rg_"), envir = globalenv()))
  }
})

test_that("functions that options name are sent, and what looks a variable up in any way says that it was not sent", {
  withr::local_options(contrasts = getOption("contrasts"), na.action = "na.omit")
  script_in_workspace({
    rg_contrasts <- function(n, ...) 2 * stats::contr.sum(n)
    rg_rest <- function(object, ...) object[c(TRUE, FALSE), , drop = FALSE]
    rg_models <- data.frame(u = c(1, 2, 4, 5, 7, 9), v = gl(3, 2), w = c(3, 1, 4, 1, 5, 9))
    rg_everywhere(lapply(1:2, function(i) coef(lm(u ~ v, rg_models))))
    rg_options <- options(contrasts = c("rg_contrasts", "contr.poly"))
    rg_everywhere(lapply(1:2, function(i) coef(lm(u ~ v, rg_models))))
    options(rg_options)
    options(na.action = "rg_rest")
    rg_everywhere(lapply(1:2, function(i) coef(lm(u ~ w, rg_models))))
  })
  assign("rg_z", function() 3, globalenv())
  withr::defer(rm("rg_z", envir = globalenv()))
  asks <- list(
    function(i) get(paste0("rg_", "z"), mode = "function"), function(i) match.fun(paste0("rg_", "z")),
    function(i) mget(paste0("rg_", "z"), envir = globalenv()), function(i) do.call(paste0("rg_", "z"), list()),
    function(i) dynGet(paste0("rg_", "z"), inherits = TRUE)
  )
  for (ask in asks) {
    environment(ask) <- globalenv()
    cnd <- expect_error(par_lapply(1, ask, .on = places$local, .control = on_local()))
    expect_match(paste(cnd$body, collapse = "\n"), "`rg_z` is .* not sent", label = deparse(body(ask)))
  }
})

test_that("the words of code are found in functions of any class, and a step that fails keeps no other from its turn", {
  special <- structure(function(a = "default") list("inside", c = 1), class = "special")
  expect_setequal(setdiff(regatta:::words_of(special), ""), c("a", "default", "inside", "c"))
  done <- 0
  expect_error(regatta:::each_of(done <- done + 1, stop("the first"), stop("another"), done <- done + 1), "the first")
  expect_identical(done, 2)
})

test_that("nothing is left behind", {
  rm("rg_everywhere", envir = globalenv())
  started$stop()
  unlink(lib, recursive = TRUE)
  end_servers()
  expect_no_detritus(detritus)
})
