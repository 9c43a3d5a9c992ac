# What a script does in a page that headless Chromium has opened, as R's lists; skipped where that is not to be had.
browse <- function(url, script, env = parent.frame()) {
  tool <- file.path(Sys.getenv("REGATTA_SOURCE"), "tools", "browse.py")
  skip_if_not(nzchar(Sys.getenv("REGATTA_SOURCE")) && file.exists(tool), "not in the tree of the sources")
  if (!any(nzchar(Sys.which(c("chromium", "chromium-browser", "google-chrome"))))) skip("no Chromium is installed")
  if (!nzchar(Sys.which("python3"))) skip("no python3 is installed")
  skip_if_not_installed("processx")
  skip_if_not_installed("jsonlite")
  dir <- withr::local_tempdir(.local_envir = env)
  file <- file.path(dir, "script.js")
  writeLines(enc2utf8(script), file, useBytes = TRUE)
  seconds <- 60 * slowness()
  got <- processx::run(
    "python3", c(tool, url, "--seconds", seconds), stdin = file, error_on_status = FALSE, timeout = 2 * seconds,
    env = c("current", TMPDIR = dir), cleanup_tree = TRUE
  )
  expect_identical(got$status, 0L, info = got$stderr)
  jsonlite::fromJSON(got$stdout, simplifyVector = FALSE)
}
