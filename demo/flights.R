# Does a flight that leaves later in the day arrive late more often? A logistic model with a
# bootstrap interval for each of the 224 routes out of New York in 2013: 224 tasks, of which the
# largest has 11,262 flights and the smallest a single one.
#
# Rscript demo/flights.R [folder for the table and the picture]

library(regatta)

if (!requireNamespace("nycflights13", quietly = TRUE)) {
  stop("The demo needs the data of nycflights13: install.packages(\"nycflights13\")")
}

# The data.

flights <- as.data.frame(nycflights13::flights)
flights$route <- paste(flights$origin, flights$dest, sep = "-")
routes <- split(flights[c("hour", "arr_delay")], flights$route)

# One route is spoiled on purpose, to show what becomes of an error.
spoiled <- "LGA-BUF"
routes[[spoiled]]$hour[1:5] <- NA

# The model of one route: ordinary R, nothing in it knows of parallel work.

fit_route <- function(route, resamples) {
  arrived <- route[!is.na(route$arr_delay), ]
  if (nrow(route) >= 6000) {
    message("a large one, ", nrow(route), " flights")
  }
  late <- as.numeric(arrived$arr_delay > 15)
  if (nrow(arrived) < 30) {
    warning("too few arrivals for a model: ", nrow(arrived), call. = FALSE)
  }
  if (nrow(arrived) < 30 || length(unique(arrived$hour)) < 4) {
    return(c(flights = nrow(route), late = 100 * mean(late), ratio = NA, low = NA, high = NA))
  }
  slope <- fit_slope(arrived$hour, late)
  spread <- stats::sd(each_warning_once(resample_slopes(arrived$hour, late, resamples)))
  c(
    flights = nrow(route), late = 100 * mean(late),
    ratio = exp(slope), low = exp(slope - 1.96 * spread), high = exp(slope + 1.96 * spread)
  )
}

fit_slope <- function(hour, late) {
  unknown <- sum(is.na(hour))
  if (unknown > 0) {
    stop("the scheduled hour of ", unknown, " flights is missing")
  }
  stats::glm.fit(cbind(1, hour), late, family = stats::binomial())$coefficients[[2]]
}

resample_slopes <- function(hour, late, resamples) {
  replicate(resamples, {
    i <- sample.int(length(late), replace = TRUE)
    fit_slope(hour[i], late[i])
  })
}

# glm.fit() warns for every resample of a small route in which no flight was late.
each_warning_once <- function(value) {
  seen <- character()
  value <- withCallingHandlers(value, warning = function(w) {
    seen <<- c(seen, conditionMessage(w))
    tryInvokeRestart("muffleWarning")
  })
  for (text in unique(seen)) {
    warning(text, " (in ", sum(seen == text), " of the resamples)", call. = FALSE)
  }
  value
}

# The run.

say <- function(...) {
  writeLines(c("", strwrap(paste0(...), width = 78, prefix = "# "), ""))
  flush.console()
}

resamples <- 120
workers <- max(2L, workers_available())
old <- options(warn = 1)

say(
  "par_lapply() fits ", length(routes), " routes with ", resamples, " resamples each on ",
  workers, " workers. What an element says appears at once, behind its name. The routes differ",
  " ten-thousandfold in size: whichever worker is free takes the next."
)

fits <- par_lapply(
  routes, fit_route,
  resamples = resamples,
  .control = par_control(workers = workers, seed = 2013, errors = "collect", progress = TRUE)
)
run <- par_last()

# The failure.

failed <- vapply(fits, inherits, NA, "condition")
say(
  sum(failed), " of ", length(fits), " routes failed, as planned; the others are complete.",
  " The error knows which one it was, what was called, and what the variables were:"
)
error <- fits[failed][[1]]
writeLines(conditionMessage(error))
say("error$trace, the variables of each call:")
print(error$trace)

# The table.

table <- as.data.frame(do.call(rbind, fits[!failed]))
table <- table[order(-table$ratio), ]
folder <- c(commandArgs(trailingOnly = TRUE), if (interactive()) tempdir() else ".")[[1]]
dir.create(folder, showWarnings = FALSE, recursive = TRUE)
csv <- file.path(folder, "flights-routes.csv")
write.csv(format(table, digits = 4), csv, quote = FALSE)
known <- table[!is.na(table$ratio), ]
shown <- rbind(utils::head(known, 8), utils::tail(known, 4))
say(
  "The odds of arriving more than 15 minutes late are multiplied by `ratio` for each hour that a",
  " flight leaves later in the day (95% interval from `low` to `high`). The 8 highest and the 4",
  " lowest of ", nrow(known), " routes; ", sum(is.na(table$ratio)), " have too few arrivals or",
  " leave at fewer than 4 different hours."
)
print(transform(
  round(shown, 2),
  flights = format(flights, big.mark = ","), late = sprintf("%.0f%%", late)
))
cat("\nall of them:", csv, "\n")

clear <- sum(known$low > 1)
cat(sprintf(
  "On %d of %d routes a later flight is clearly more often late, on %d clearly less often.\n",
  clear, nrow(known), sum(known$high < 1)
))

say("The seed belongs to the element, so any one can be run again by itself, here:")
again <- par_replay(run, "LGA-BHM")
same <- identical(again, fits[["LGA-BHM"]])
cat("par_replay(run, \"LGA-BHM\") gives the same numbers:", same, "\n")

# What ran where.

say("summary(par_last()): what ran where.")
print(summary(run))

png_file <- file.path(folder, "flights-timeline.png")
if (capabilities("png")) {
  png(png_file, width = 1400, height = 260 + 120 * min(workers, 8L), res = 120)
  plot(run, main = "A model for every route out of New York")
  invisible(dev.off())
  cat("\nThe timeline, workers against time, a bar for each route:", png_file, "\n")
} else {
  cat("\nThis R cannot write PNG files; plot(par_last()) draws the timeline on any device.\n")
}

# Against lapply and mclapply.

few <- 10
good <- routes[names(routes) != spoiled]
say(
  "The same work with ", few, " resamples in four ways, in this session. `warnings` is how many",
  " of the warnings reached it."
)

time_of <- function(run) {
  warnings <- 0L
  start <- proc.time()[["elapsed"]]
  withCallingHandlers(
    run(),
    warning = function(w) {
      warnings <<- warnings + 1L
      tryInvokeRestart("muffleWarning")
    },
    message = function(m) tryInvokeRestart("muffleMessage")
  )
  data.frame(seconds = proc.time()[["elapsed"]] - start, warnings = warnings)
}

RNGkind("L'Ecuyer-CMRG")
set.seed(2013)
times <- rbind(
  "lapply" = time_of(function() lapply(good, fit_route, few)),
  "parallel::mclapply" = time_of(function() {
    parallel::mclapply(good, fit_route, few, mc.cores = workers, mc.silent = TRUE)
  }),
  "parallel::mclapply, mc.preschedule = FALSE" = time_of(function() {
    parallel::mclapply(
      good, fit_route, few,
      mc.cores = workers, mc.preschedule = FALSE, mc.silent = TRUE
    )
  }),
  "regatta::par_lapply" = time_of(function() {
    par_lapply(
      good, fit_route, few,
      .control = par_control(workers = workers, progress = FALSE)
    )
  })
)
times$speedup <- times$seconds[[1]] / times$seconds
print(format(times, digits = 2, nsmall = 1))
options(old)
