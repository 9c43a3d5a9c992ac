# A memory cgroup below the root, version 1 or 2, as list(procs = , limit = , path = ).
local_cgroup <- function(bytes, env = parent.frame()) {
  roots <- c("/sys/fs/cgroup/memory", "/sys/fs/cgroup")
  files <- c("memory.limit_in_bytes", "memory.max")
  for (k in 1:2) {
    path <- file.path(roots[[k]], paste0("regatta-test-", Sys.getpid()))
    made <- suppressWarnings(dir.create(path, showWarnings = FALSE))
    if (!made) next
    withr::defer(remove_cgroup(path), envir = env)
    limit <- file.path(path, files[[k]])
    if (!file.exists(limit)) next
    swap <- file.path(path, c("memory.memsw.limit_in_bytes", "memory.swap.max")[[k]])
    text <- format(bytes, scientific = FALSE)
    set <- tryCatch({
      suppressWarnings(writeLines(text, limit))
      TRUE
    }, error = function(e) FALSE)
    if (!set) next
    try(suppressWarnings(writeLines(c(text, "0")[[k]], swap)), silent = TRUE)
    return(list(path = path, procs = file.path(path, "cgroup.procs")))
  }
  testthat::skip("no memory cgroup can be made here")
}

# A group can be removed when the last of its processes is gone; one that stays does no harm.
remove_cgroup <- function(path) {
  gone <- function() !dir.exists(path) || system2("rmdir", path, stderr = FALSE) == 0L
  tryCatch(wait_until(gone, 20), error = function(e) message(conditionMessage(e)))
}

in_cgroup <- function(group) {
  c("sh", "-c", paste0("echo $$ > ", group$procs, " && exec \"$@\""), "sh")
}
