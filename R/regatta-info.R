# What this machine allows this process, in one object.

regatta_info <- function() {
  info_read(root = "")
}

# `root` is a folder that stands for the machine's /.
info_read <- function(root) {
  process <- .Call(ffi_regatta_info_process)
  structure(
    list(
      package = as.character(utils::packageVersion("regatta")),
      r = paste0(R.version$major, ".", R.version$minor),
      platform = R.version$platform,
      system = paste(Sys.info()[c("sysname", "release")], collapse = " "),
      cores = cores_decide(cores_read(root = root)),
      memory = .Call(ffi_regatta_info_memory, root),
      limits = c(.Call(ffi_regatta_info_limits, root), info_options()),
      blas = info_blas(),
      threads = process$threads,
      features = c(process$works, info_altrep())
    ),
    class = "regatta_info"
  )
}

info_options <- function() {
  bytes <- function(name, default) {
    value <- parse_bytes(getOption(name, default))
    if (is.na(value)) NA_real_ else value
  }
  c(shm_max = bytes("regatta.shm_max", Inf), shm_keep = bytes("regatta.shm_keep", 1e9))
}

info_blas <- function() {
  now <- threads_share_now()
  list(
    blas = unname(extSoftVersion()["BLAS"]), lapack = La_library(), lapack_version = La_version(),
    threads = now[!is.na(now)]
  )
}

# ALTREP lists came with R 4.3; the other classes are older than the R that is required.
info_altrep <- function() {
  c(
    altrep_vectors = TRUE,
    altrep_lists = getRversion() >= "4.3.0"
  )
}

format.regatta_info <- function(x, ...) {
  blas <- if (nzchar(x$blas$blas)) x$blas$blas else "of R itself"
  libraries <- x$blas$threads
  section <- function(title, ...) c("", title, paste0("  ", c(...)))
  c(
    sprintf("regatta %s, R %s, %s, %s", x$package, x$r, x$platform, x$system),
    section("Workers", format(x$cores)),
    section("Memory", info_lines(x$memory, info_memory_words)),
    section("Limits", info_lines(x$limits, info_limit_words)),
    section(
      "Threads",
      sprintf("%-35s %s", "live in this process", info_count(x$threads)),
      if (length(libraries) > 0L) {
        sprintf("%-35s %d", paste("used by", names(libraries)), libraries)
      },
      sprintf("BLAS %s", blas),
      sprintf("LAPACK %s (%s)", x$blas$lapack, x$blas$lapack_version)
    ),
    section("Features", sprintf(
      "%-35s %s", info_feature_words[names(x$features)], ifelse(x$features, "yes", "no")
    ))
  )
}

print.regatta_info <- function(x, ...) {
  lines <- format(x, ...)
  titles <- nzchar(lines) & !startsWith(lines, " ")
  lines[titles] <- cli::style_bold(lines[titles])
  cli::cat_line(lines)
  invisible(x)
}

# What each number is called and whether it is in bytes.
info_memory_words <- list(
  total = c("of the machine", "bytes"),
  available = c("available to this process", "bytes"),
  machine_available = c("available on the machine", "bytes"),
  cgroup_limit = c("limit of the control group", "bytes"),
  cgroup_use = c("used by the control group", "bytes"),
  oom_kills = c("processes killed for lack of it", "count")
)

info_limit_words <- list(
  files_soft = c("open files", "count"),
  files_hard = c("open files, at most", "count"),
  processes_soft = c("processes of this user", "count"),
  processes_hard = c("processes of this user, at most", "count"),
  address_space = c("address space", "bytes"),
  cgroup_processes = c("processes of the control group", "count"),
  cgroup_processes_use = c("processes in the control group", "count"),
  dev_shm = c("/dev/shm", "bytes"),
  dev_shm_free = c("/dev/shm, free", "bytes"),
  shm_max = c("option regatta.shm_max", "bytes"),
  shm_keep = c("option regatta.shm_keep", "bytes")
)

info_feature_words <- c(
  unnamed_memory = "shared memory without a name",
  fallocate = "memory reserved before use",
  pidfd = "descriptors of processes",
  parent_death_signal = "signal at the end of the parent",
  altrep_vectors = "shared vectors (ALTREP)",
  altrep_lists = "shared lists (ALTREP)"
)

info_lines <- function(numbers, words) {
  words <- words[names(numbers)]
  text <- vapply(seq_along(numbers), function(i) {
    show <- if (words[[i]][[2L]] == "bytes") info_bytes else info_count
    sprintf("%-35s %s", words[[i]][[1L]], show(numbers[[i]]))
  }, "")
  text[!is.na(numbers)]
}

info_bytes <- function(x) {
  if (is.finite(x) && x >= 2^60) "unlimited" else format_bytes(x)
}

info_count <- function(x) {
  if (is.na(x)) "unknown" else if (is.infinite(x)) "unlimited" else sprintf("%.0f", x)
}
