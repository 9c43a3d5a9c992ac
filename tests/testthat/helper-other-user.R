# What another user of the machine does to the names of shared memory. Only root can play both.

skip_unless_other_user <- function() {
  skip_unless_linux()
  if (!is_root()) testthat::skip("acting as another user needs root")
  skip_unless_command("setpriv")
  works <- suppressWarnings(as_other_user("test -d /dev/shm && test -w /dev/shm"))
  if (works != 0L) testthat::skip("no other user can write to /dev/shm here")
}

# Runs a command of sh as the user 65534 ("nobody"); its exit status.
as_other_user <- function(command) {
  system2(
    "setpriv", c("--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", shQuote(command)),
    stdout = FALSE, stderr = FALSE
  )
}

# `become`: the command that makes another user of what follows it; `dir` is to be written by that one.
skip_unless_reachable <- function(become, dir) {
  reach <- sprintf("test -r '%s/DESCRIPTION' -a -w '%s'", find.package("regatta"), dir)
  if (processx::run(become[[1L]], c(become[-1L], "sh", "-c", reach), FALSE)$status != 0L) {
    testthat::skip("the library or the temporary folder is closed to an ordinary user")
  }
}

shm_path <- function(name) file.path("/dev/shm", sub("^/", "", name))
