# How many workers this process may use. Every source either says a number or keeps silent; the
# smallest number decides.

cores_sources <- c(
  "affinity", "cgroup", "slurm", "pbs", "lsf", "sge", "mc.cores", "check", "worker"
)

workers_available <- function(sources = NULL) {
  if (!is.null(sources)) {
    sources <- check_subset(sources, "sources", cores_sources)
  }
  cores_decide(cores_read(if (is.null(sources)) cores_sources else sources))
}

# The number alone, for a call that asks each time: read anew when anything has changed that it depends on. A host file
# may change by itself.
cores_known <- function() {
  if (nzchar(Sys.getenv("PE_HOSTFILE"))) {
    return(as.integer(workers_available()))
  }
  on <- list(.Call(ffi_workers_available, ""), .Call(ffi_settings_environment), getOption("mc.cores"))
  if (!identical(on, the$cores$on)) the$cores <- list(on = on, count = as.integer(workers_available()))
  the$cores$count
}

# `root` is a folder that stands for the machine's /.
cores_read <- function(sources = cores_sources, root = "") {
  machine <- .Call(ffi_workers_available, root)
  lapply(stats::setNames(nm = sources), function(source) {
    switch(source,
      affinity = cores_affinity(machine),
      cgroup = cores_cgroup(machine),
      slurm = cores_slurm(),
      pbs = cores_variables(c("PBS_NUM_PPN", "NCPUS")),
      lsf = cores_lsf(),
      sge = cores_sge(),
      mc.cores = cores_option(),
      check = cores_check(),
      worker = cores_variables("REGATTA_SHARE")
    )
  })
}

cores_decide <- function(readings) {
  cores <- vapply(readings, function(reading) reading$cores, 1L)
  why <- vapply(readings, function(reading) reading$why, "")
  first <- which.min(cores)
  structure(
    if (length(first) == 1L) cores[[first]] else 1L,
    source = if (length(first) == 1L) names(cores)[[first]] else "none",
    sources = cores, why = why, class = c("regatta_workers", "integer")
  )
}

cores_reading <- function(cores = NA_integer_, why = "") {
  list(cores = cores, why = why)
}

# A source that cannot be read is silent, but says so.
cores_count <- function(text, what, zero = FALSE) {
  number <- suppressWarnings(as.numeric(text))
  if (length(number) != 1L || is.na(number) || number != floor(number) ||
        number < if (zero) 0 else 1) {
    shown <- encodeString(shorten(paste(text, collapse = " "), 30L), quote = "\"")
    return(cores_reading(why = sprintf("%s = %s is no number of cores", what, shown)))
  }
  cores_reading(as.integer(min(max(number, 1), .Machine$integer.max)), what)
}

# The first of these environment variables that is set.
cores_variables <- function(names) {
  for (name in names) {
    text <- Sys.getenv(name)
    if (nzchar(text)) {
      return(cores_count(text, name))
    }
  }
  cores_reading()
}

cores_affinity <- function(machine) {
  why <- sprintf("%d of %d CPUs that are on", machine$affinity, machine$online)
  cores_reading(machine$affinity, why)
}

# Half a CPU counts as one: 1.5 CPUs are better used by two workers that each wait a quarter of
# their time than by one, while a third worker on 2.4 CPUs would mostly wait.
cores_cgroup <- function(machine) {
  if (is.infinite(machine$quota)) {
    return(cores_reading())
  }
  cores <- min(max(floor(machine$quota + 0.5), 1), .Machine$integer.max)
  cores_reading(as.integer(cores), sprintf("quota of %.4g CPUs, %s", machine$quota, machine$where))
}

# SLURM_CPUS_ON_NODE counts for all tasks of the step on this node; a batch script is one process,
# to which all of it belongs.
cores_slurm <- function() {
  cores <- cores_variables(c("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"))
  if (is.na(cores$cores) || cores$why != "SLURM_CPUS_ON_NODE") {
    return(cores)
  }
  tasks <- slurm_tasks_here()
  if (tasks < 2L) {
    return(cores)
  }
  why <- sprintf("SLURM_CPUS_ON_NODE = %d for %d tasks", cores$cores, tasks)
  cores_reading(max(1L, cores$cores %/% tasks), why)
}

# Tasks of this step on this node, from a list such as "4(x2),3"; 1 outside a step. A batch
# script's own step is called "batch" where it has a name.
slurm_tasks_here <- function() {
  step <- Sys.getenv("SLURM_STEP_ID", Sys.getenv("SLURM_STEPID"))
  if (!grepl("^[0-9]+$", step)) {
    return(1L)
  }
  parts <- strsplit(Sys.getenv("SLURM_STEP_TASKS_PER_NODE"), ",", fixed = TRUE)[[1L]]
  pattern <- "^([0-9]{1,6})(\\(x([0-9]{1,6})\\))?$"
  if (length(parts) == 0L || !all(grepl(pattern, parts))) {
    return(1L)
  }
  times <- sub(pattern, "\\3", parts)
  times <- as.integer(ifelse(nzchar(times), times, "1"))
  node <- suppressWarnings(as.integer(Sys.getenv("SLURM_NODEID", "0")))
  tasks <- as.integer(sub(pattern, "\\1", parts))[findInterval(node, c(0, cumsum(times)))]
  if (length(tasks) != 1L || is.na(tasks)) 1L else tasks
}

# LSB_MCPU_HOSTS is "host slots host slots ..."; LSB_DJOB_NUMPROC is their sum.
cores_lsf <- function() {
  hosts <- Sys.getenv("LSB_MCPU_HOSTS")
  words <- if (nzchar(hosts)) strsplit(trimws(hosts), "\\s+")[[1L]]
  if (length(words) >= 4L && length(words) %% 2L == 0L) {
    odd <- seq(1L, length(words), by = 2L)
    here <- which(same_host(words[odd]))
    if (length(here) == 1L) {
      return(cores_count(words[odd + 1L][[here]], "LSB_MCPU_HOSTS"))
    }
  }
  cores_variables("LSB_DJOB_NUMPROC")
}

# NSLOTS counts on all hosts of a parallel environment; the lines of the host file are
# "host slots queue processors".
cores_sge <- function() {
  path <- Sys.getenv("PE_HOSTFILE")
  if (nzchar(Sys.getenv("NSLOTS")) && nzchar(path) && file.access(path, 4L) == 0L) {
    lines <- strsplit(trimws(readLines(path, n = 10000L, warn = FALSE)), "\\s+")
    lines <- lines[lengths(lines) >= 2L]
    here <- lines[same_host(vapply(lines, `[[`, "", 1L))]
    if (length(lines) > 1L && length(here) == 1L) {
      return(cores_count(here[[1L]][[2L]], "PE_HOSTFILE"))
    }
  }
  cores_variables("NSLOTS")
}

same_host <- function(names) {
  short <- function(name) tolower(sub("[.].*", "", name))
  short(names) == short(Sys.info()[["nodename"]])
}

# As parallel: MC_CORES counts where the option is not set, and `options(mc.cores = 0)` asks for no
# process besides this one.
cores_option <- function() {
  option <- getOption("mc.cores")
  if (is.null(option)) {
    return(cores_variables("MC_CORES"))
  }
  cores_count(option, "option mc.cores", zero = TRUE)
}

# As parallel: set and not "false" means no more than two.
cores_check <- function() {
  flag <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_"))
  if (nzchar(flag) && flag != "false") {
    cores_reading(2L, "_R_CHECK_LIMIT_CORES_")
  } else {
    cores_reading()
  }
}

format.regatta_workers <- function(x, ...) {
  source <- attr(x, "source")
  cores <- attr(x, "sources")
  why <- attr(x, "why")
  told <- why[nzchar(why) & names(why) != source]
  decided <- if (source == "none") {
    "no source says more"
  } else {
    sprintf("decided by %s: %s", source, why[[source]])
  }
  said <- ifelse(is.na(cores[names(told)]), "is ignored", paste("allows", cores[names(told)]))
  c(
    sprintf("%d (%s)", as.integer(x), decided),
    if (length(told) > 0L) sprintf("  %s %s: %s", names(told), said, told)
  )
}

print.regatta_workers <- function(x, ...) {
  writeLines(format(x))
  invisible(x)
}

# What is computed from the number was decided by no source.
Ops.regatta_workers <- function(e1, e2) {
  plain <- function(x) if (inherits(x, "regatta_workers")) as.integer(x) else x
  operator <- get(.Generic, envir = baseenv(), mode = "function")
  if (missing(e2)) operator(plain(e1)) else operator(plain(e1), plain(e2))
}

Math.regatta_workers <- function(x, ...) {
  get(.Generic, envir = baseenv(), mode = "function")(as.integer(x), ...)
}
