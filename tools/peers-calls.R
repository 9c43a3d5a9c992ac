# The same calls through parallel, through bettermc where that is installed, and through regatta:
# values, names, classes, and whether there were an error, warnings, messages and output.
#   Rscript tools/peers-calls.R
# Writes .build/peers/calls.tsv; the calls that differ on purpose are in tools/peers-calls.known.

quiet <- function(code) suppressMessages(suppressWarnings(suppressPackageStartupMessages(code)))
if (!quiet(requireNamespace("regatta"))) stop("regatta is not installed")
verbs <- c("mclapply", "pvec", "mcmapply", "mcMap")
systems <- list(
  parallel = mget(verbs, asNamespace("parallel")), regatta = mget(verbs, asNamespace("regatta")),
  # With what docs/BETTERMC.md says brings back the defaults of parallel.
  back = list(mclapply = function(X, FUN, ..., mc.set.seed = TRUE) {
    regatta::mclapply(X, FUN, ...,
      mc.set.seed = mc.set.seed, mc.use.names = FALSE, mc.allow.error = TRUE, mc.allow.fatal = NULL
    )
  })
)
if (quiet(requireNamespace("bettermc", quietly = TRUE))) {
  systems$bettermc <- list(mclapply = bettermc::mclapply)
}

# What mclapply() can be given: by name, the elements and the function.
elements <- list(
  numbers = 1:5, named = c(a = 1, b = 2, c = 3), text = c("u", "v", "u"),
  `named text` = c(a = "u", b = "v"), list = list(1, "b", NULL, sum), `named list` = list(a = 1, 2),
  one = 7, `one text` = "u", null = NULL, `no numbers` = numeric(), `no text` = character(),
  `no list` = list(), `no named list` = structure(list(), names = character()),
  `data frame` = data.frame(a = 1:2, b = c("x", "y")), dates = as.Date("2020-02-03") + 0:2,
  factor = factor(c("u", "v", "u")), matrix = matrix(1:4, 2), expression = expression(a, b + c),
  pairlist = pairlist(a = 1, b = 2), attribute = structure(1:3, note = "n"), call = quote(f(x, y)),
  times = as.POSIXct("2020-02-03", tz = "UTC") + 0:1, spans = as.difftime(1:2, units = "mins"),
  complex = complex(real = 1:2, imaginary = 0), raw = as.raw(1:3), na = c(NA, TRUE)
)
functions <- list(
  identity = function(x) x, class = class, null = function(x) NULL,
  `by name` = "length", invisible = function(x) invisible(x),
  function_ = function(x) function(y) x,
  environment = function(x) is.environment(environment()),
  warning = function(x) {
    warning("w")
    x
  },
  message = function(x) {
    message("m")
    x
  },
  condition = function(x) {
    signalCondition(structure(class = c("mine", "condition"), list(message = "c", call = NULL)))
    x
  },
  output = function(x) {
    cat("out\n")
    x
  },
  error = function(x) if (identical(x, 2)) stop("e") else x,
  `all errors` = function(x) stop("e"),
  `try-error` = function(x) try(stop("e"), silent = TRUE),
  `no function` = "no such function", `not one` = 1, `no argument` = function() 1,
  death = function(x) if (identical(x, 2)) tools::pskill(Sys.getpid(), 9L) else x,
  matched = function(x) deparse(sys.call()),
  missing = function(x, y) missing(y), dots = function(...) ...length(),
  option = function(x) {
    options(regatta.peer.test = "set")
    x
  },
  assignment = function(x) {
    assign("regatta_peer_test", x, envir = globalenv())
    x
  }
)
arguments <- list(
  default = list(), alone = list(mc.cores = 1L), three = list(mc.cores = 3L),
  each = list(mc.preschedule = FALSE), silent = list(mc.silent = TRUE), `no seed` = list(mc.set.seed = FALSE),
  `seed` = list(mc.set.seed = TRUE), cleanup = list(mc.cleanup = 9L), `no cleanup` = list(mc.cleanup = FALSE),
  `not nested` = list(mc.allow.recursive = FALSE), `cores as text` = list(mc.cores = "2"),
  `cores as double` = list(mc.cores = 2.7), `cores 0` = list(mc.cores = 0L), `cores NA` = list(mc.cores = NA),
  pinned = list(mc.preschedule = FALSE, affinity.list = rep(list(1L), 26L)),
  `pinned in vain` = list(affinity.list = rep(list(1L), 26L)),
  `pinned too few` = list(mc.preschedule = FALSE, affinity.list = list(1L)),
  `pinned numbers` = list(mc.preschedule = FALSE, affinity.list = rep(1, 26L))
)

calls <- list()
add <- function(name, ...) {
  if (!is.null(calls[[name]])) stop("two calls are named ", name)
  calls[[name]] <<- as.call(list(...))
}
for (x in names(elements)) {
  add(sprintf("mclapply, %s", x), quote(mclapply), elements[[x]], functions$identity)
  add(sprintf("mclapply, %s, class", x), quote(mclapply), elements[[x]], class)
  add(sprintf("mclapply, %s, each", x), quote(mclapply), elements[[x]], functions$identity,
    mc.preschedule = FALSE)
  add(sprintf("mclapply, %s, alone", x), quote(mclapply), elements[[x]], functions$identity,
    mc.cores = 1L)
}
named <- list(a = 1, b = 2, c = 3)
for (f in setdiff(names(functions), "identity")) {
  add(sprintf("mclapply, f %s", f), quote(mclapply), named, functions[[f]])
  add(sprintf("mclapply, f %s, each", f), quote(mclapply), named, functions[[f]],
    mc.preschedule = FALSE)
  if (f != "death") {
    add(sprintf("mclapply, f %s, alone", f), quote(mclapply), named, functions[[f]], mc.cores = 1L)
    add(sprintf("mclapply, f %s, one", f), quote(mclapply), named["b"], functions[[f]])
  }
}
for (a in setdiff(names(arguments), "default")) {
  add(sprintf("mclapply, %s", paste0("with ", a)), quote(mclapply), named, functions$identity)
  calls[[length(calls)]] <- as.call(c(as.list(calls[[length(calls)]]), arguments[[a]]))
}
add("mclapply, arguments of f", quote(mclapply), named, function(x, y, z) c(x, y, z), 10, z = 20)
add("mclapply, unused argument of f", quote(mclapply), named, function(x) x, quote(stop("lazy")))
add("mclapply, lazy argument of f", quote(mclapply), named, function(x, y) x, quote(stop("lazy")))
add("mclapply, X and FUN by name", quote(mclapply), FUN = functions$identity, X = named)
add("mclapply, no X", quote(mclapply), FUN = functions$identity)
add("mclapply, no FUN", quote(mclapply), named)
add("mclapply, more cores than elements", quote(mclapply), named, functions$identity, mc.cores = 8L)
add("mclapply, large", quote(mclapply), 1:2, function(i) list(rep(i + 0, 1e5), rep(letters, 1e4)))
add("mclapply, nested", quote(mclapply), 1:2, quote(function(i) mclapply(1:2, function(j) i * j)))
add("mclapply, no recursion", quote(mclapply), 1:2,
  quote(function(i) mclapply(1:2, function(j) i * j, mc.allow.recursive = FALSE)))
add("mclapply, random, no seed", quote(mclapply), rep(4, 5), quote(rnorm), mc.preschedule = FALSE,
  mc.set.seed = FALSE)
# Not compared: the numbers of several elements of one worker without a seed. Which elements those
# are is chance here, where the next one goes to whoever is free.
add("mclapply, random, streams", quote(mclapply), rep(4, 5), quote(rnorm), mc.set.seed = TRUE)
add("mclapply, random, alone", quote(mclapply), rep(4, 5), quote(rnorm), mc.set.seed = TRUE,
  mc.cores = 1L)
add("mclapply, random, default, alone", quote(mclapply), rep(4, 5), quote(rnorm), mc.cores = 1L)
add("mclapply, sorted, pinned", quote(mclapply), list(c(3, 1), c(9, 4), 5),
  function(i) head(sort(i), n = 1), mc.preschedule = FALSE, affinity.list = c(1, 1, 1))
add("mclapply, simplified", quote(simplify2array), quote(mclapply(1:4, function(i) c(i, i))))
add("mclapply, nested call of base", quote(unlist), quote(mclapply(split(1:6, c(1, 1, 2, 2, 3, 3)), sum)))

pieces <- list(
  numbers = 1:10, two = 1:2, one = 3, none = integer(), text = letters[1:5], named = c(a = 1, b = 2, c = 3),
  `two named` = c(a = 1, b = 2), list = list(1, 2, "c"), `list of one` = list(1), `no list` = list(),
  dates = as.Date("2020-02-03") + 0:2, factor = factor(c("u", "v")), null = NULL, matrix = matrix(1:4, 2),
  attribute = structure(1:3, note = "n"), expression = expression(a, b, c)
)
for (v in names(pieces)) {
  add(sprintf("pvec, %s", v), quote(pvec), pieces[[v]], functions$identity)
  add(sprintf("pvec, %s, class", v), quote(pvec), pieces[[v]], class)
  add(sprintf("pvec, %s, alone", v), quote(pvec), pieces[[v]], functions$identity, mc.cores = 1L)
}
for (f in setdiff(names(functions), "identity")) {
  add(sprintf("pvec, f %s", f), quote(pvec), c(1, 2), functions[[f]])
  add(sprintf("pvec, f %s, longer", f), quote(pvec), c(1, 2, 3, 4), functions[[f]])
}
for (a in c("three", "silent", "no seed", "no cleanup", "cores as text", "cores as double", "cores 0", "cores NA")) {
  add(sprintf("pvec, with %s", a), quote(pvec), 1:10 + 0, quote(sqrt))
  calls[[length(calls)]] <- as.call(c(as.list(calls[[length(calls)]]), arguments[[a]]))
}
add("pvec, dates of text", quote(pvec), sprintf("2020-02-%02d", 1:9), quote(as.POSIXct),
  format = "%Y-%m-%d", tz = "UTC")
add("pvec, arguments of f", quote(pvec), 1:6, function(v, n, m) v * n + m, 2, m = 1)
add("pvec, random, no seed", quote(pvec), 1:4, function(v) rnorm(length(v)), mc.set.seed = FALSE)
add("pvec, random, streams", quote(pvec), 1:4, function(v) rnorm(length(v)))
add("pvec, folded", quote(pvec), 1:6, quote(sum))

add("mcmapply, rep", quote(mcmapply), quote(rep), 1:4, 4:1)
add("mcmapply, by name", quote(mcmapply), quote(rep), times = 1:4, x = 4:1)
add("mcmapply, more", quote(mcmapply), quote(rep), times = 1:4, MoreArgs = list(x = 42))
add("mcmapply, names of first", quote(mcmapply), function(x, y) seq_len(x) + y,
  c(a = 1, b = 2, c = 3), c(A = 10, B = 0, C = -10))
add("mcmapply, text first", quote(mcmapply), function(C, x) paste0(C, x), c("a", "b"), 1:2)
add("mcmapply, no names", quote(mcmapply), function(C, x) paste0(C, x), c("a", "b"), 1:2, USE.NAMES = FALSE)
add("mcmapply, list", quote(mcmapply), function(x, y) x + y, 1:3, 4:6, SIMPLIFY = FALSE)
add("mcmapply, array", quote(mcmapply), function(x, y) diag(2) * x * y, 1:3, 4:6, SIMPLIFY = "array")
add("mcmapply, recycled", quote(mcmapply), function(x, y) x + y, 1:4, 1:2)
add("mcmapply, recycled in part", quote(mcmapply), function(x, y) x + y, 1:5, 1:2)
add("mcmapply, no arguments", quote(mcmapply), function() 1)
add("mcmapply, empty", quote(mcmapply), function(x) x, integer())
add("mcmapply, empty text", quote(mcmapply), function(x) x, character())
add("mcmapply, empty and not", quote(mcmapply), function(x, y) x, integer(), 1:2)
add("mcmapply, one", quote(mcmapply), function(x) c(x, x), 3)
add("mcmapply, one text", quote(mcmapply), function(x) x, "u")
add("mcmapply, dates", quote(mcmapply), function(x) class(x), as.Date("2020-02-03") + 0:1)
add("mcmapply, data frame", quote(mcmapply), function(x) class(x), data.frame(a = 1:2, b = c("x", "y")))
add("mcmapply, factor", quote(mcmapply), function(x) class(x), factor(c("u", "v")))
add("mcmapply, error", quote(mcmapply), function(x) if (x == 2) stop("e") else x, 1:4)
add("mcmapply, all errors", quote(mcmapply), function(x) stop("e"), 1:4)
add("mcmapply, warning", quote(mcmapply), functions$warning, 1:4)
add("mcmapply, message", quote(mcmapply), functions$message, 1:4)
add("mcmapply, output", quote(mcmapply), functions$output, 1:4)
add("mcmapply, death", quote(mcmapply), functions$death, c(1, 2, 3))
add("mcmapply, no function", quote(mcmapply), "no such function", 1:2)
add("mcmapply, function by name", quote(mcmapply), "sum", 1:2, 3:4)
add("mcmapply, each", quote(mcmapply), function(x, y) x + y, 1:4, 4:1, mc.preschedule = FALSE)
add("mcmapply, alone", quote(mcmapply), function(x, y) x + y, 1:4, 4:1, mc.cores = 1L)
add("mcmapply, null values", quote(mcmapply), function(x) NULL, 1:3)
add("mcmapply, list of lists", quote(mcmapply), function(x) x, list(list(1), list(2)))
add("mcMap, sum", quote(mcMap), function(x, y) x + y, 1:3, 3:1)
add("mcMap, text", quote(mcMap), function(x, n) paste0(x, n), c("a", "b"), 1:2)
add("mcMap, named", quote(mcMap), function(x) x, c(a = 1, b = 2))
add("mcMap, empty", quote(mcMap), function(x) x, list())
add("mcMap, output", quote(mcMap), functions$output, 1:2)
add("mcMap, function by name", quote(mcMap), "rep", 1:3, 3:1)
add("mcMap, error", quote(mcMap), functions$error, c(1, 2, 3))
add("mcMap, cores", quote(mcMap), function(x) x, 1:3, mc.cores = 2)

# Each system runs in a session of its own, `run SYSTEM FILE`: children of parallel write their
# output to its descriptor, where the line of the call that is running stands before it.

observe <- function(call, functions) {
  seen <- c(warnings = 0L, messages = 0L, conditions = 0L)
  note <- function(kind) seen[[kind]] <<- seen[[kind]] + 1L
  env <- list2env(functions, parent = globalenv())
  env$.GlobalEnv <- globalenv()
  set.seed(4711, "L'Ecuyer-CMRG")
  parallel::mc.reset.stream()
  value <- tryCatch(
    withCallingHandlers(list(value = eval(call, env)),
      warning = function(w) {
        note("warnings")
        invokeRestart("muffleWarning")
      },
      message = function(m) {
        note("messages")
        invokeRestart("muffleMessage")
      },
      mine = function(c) note("conditions")
    ),
    error = function(e) list(error = conditionMessage(e))
  )
  left <- c(
    option = !is.null(getOption("regatta.peer.test")),
    variable = exists("regatta_peer_test", globalenv(), inherits = FALSE)
  )
  options(regatta.peer.test = NULL)
  suppressWarnings(rm("regatta_peer_test", envir = globalenv()))
  list(value = value, seen = seen, left = left)
}

run_system <- function(system, file) {
  setwd(dirname(file))
  got <- lapply(names(calls), function(name) {
    cat("call ", name, "\n", sep = "")
    flush(stdout())
    observe(calls[[name]], systems[[system]])
  })
  saveRDS(got, file)
}

# What is compared. Texts of errors, warnings and messages are each system's own, and a value that
# holds an error has its calls in it; functions have their own environments.
comparable <- function(x) {
  if (inherits(x, "try-error")) {
    "an error"
  } else if (is.function(x)) {
    "a function"
  } else if (is.list(x)) {
    attributes <- attributes(x)
    out <- lapply(unclass(x), comparable)
    attributes(out) <- attributes
    out
  } else {
    x
  }
}

describe <- function(got, printed) {
  value <- if (is.null(got$value$error)) comparable(got$value$value)
  shown <- if (is.null(got$value$error)) {
    paste(utils::capture.output(utils::str(value, give.attr = TRUE)), collapse = " ")
  } else {
    "error"
  }
  list(
    value = value, error = !is.null(got$value$error), warned = got$seen[["warnings"]] > 0L,
    messages = got$seen[["messages"]], conditions = got$seen[["conditions"]], output = printed,
    left = got$left,
    shown = gsub("[[:space:]]+", " ", shown)
  )
}

difference <- function(ours, theirs) {
  parts <- c("error", "value", "warned", "messages", "conditions", "output", "left")
  differs <- Filter(function(part) !identical(ours[[part]], theirs[[part]]), parts)
  # How far elements get before or after an error is chance.
  if (ours$error || theirs$error) differs <- intersect(differs, "error")
  if (length(differs) == 0L) return("")
  show <- function(x, part) {
    text <- if (part %in% c("error", "value")) x$shown else toString(x[[part]])
    if (nchar(text) > 60L) paste0(substr(text, 1L, 57L), "...") else text
  }
  paste(vapply(differs, function(part) {
    sprintf("%s: %s, not %s", part, show(ours, part), show(theirs, part))
  }, ""), collapse = "; ")
}

outcomes <- function(system, folder) {
  file <- file.path(folder, paste0(system, ".rds"))
  log <- file.path(folder, paste0(system, ".out"))
  unlink(file)
  status <- system2("timeout", c(
    "-k", "5", "600", file.path(R.home("bin"), "Rscript"), "--vanilla", "tools/peers-calls.R", "run",
    system, shQuote(file)
  ), stdout = log, stderr = file.path(folder, paste0(system, ".err")))
  lines <- readLines(log, warn = FALSE)
  if (!file.exists(file)) {
    calls <- grep("^call ", lines, value = TRUE)
    stop("peers: calls: ", system, " did not get beyond the ", utils::tail(calls, 1L), ", status ", status)
  }
  got <- readRDS(file)
  number <- cumsum(grepl("^call ", lines))
  printed <- tabulate(number[grepl("(^|: )out$", lines)], length(calls))
  Map(describe, got, printed)
}

main <- function(folder) {
  dir.create(folder, showWarnings = FALSE, recursive = TRUE)
  results <- lapply(names(systems), outcomes, normalizePath(folder))
  names(results) <- names(systems)
  compare <- function(label, ours, theirs) {
    used <- vapply(calls, function(call) {
      common <- intersect(names(systems[[ours]]), names(systems[[theirs]]))
      any(all.names(call) %in% common)
    }, NA)
    text <- mapply(difference, results[[ours]][used], results[[theirs]][used])
    result <- ifelse(nzchar(text), "failed", "passed")
    sprintf("%s: %s\t%s\t%s", label, names(calls)[used], result, text)
  }
  lines <- c(
    compare("parallel", "regatta", "parallel"), compare("with its defaults", "back", "parallel"),
    if (!is.null(systems$bettermc)) {
      compare("bettermc", "regatta", "bettermc")
    } else {
      sprintf("bettermc: %s\tskipped\tit is not installed", names(calls))
    }
  )
  writeLines(lines, ".build/peers/calls.tsv")
}

arguments <- commandArgs(TRUE)
if (length(arguments) == 3L && arguments[[1L]] == "run") {
  run_system(arguments[[2L]], arguments[[3L]])
} else {
  main(".build/peers/calls")
}
