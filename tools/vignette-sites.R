# Writes vignettes/many-*.txt: what the chunks of vignettes/many.Rmd that need ssh, Slurm or mirai print.
# Run by root, at the root of the tree, with sshd, Slurm and mirai installed; NAMES chooses chunks.
#   tools/with-lib.sh Rscript --vanilla tools/vignette-sites.R [NAMES]
# Everything stays on this machine: the hosts of ssh are two sshd, each with a host name of its own, and the
# Slurm is one of the test helpers.
suppressPackageStartupMessages({
  library(testthat)
  library(regatta)
})
helpers <- new.env(parent = asNamespace("regatta"))
for (file in list.files("tests/testthat", "^helper-.*[.]R$", full.names = TRUE)) sys.source(file, helpers)

chunk <- function(name) {
  lines <- readLines("vignettes/many.Rmd")
  begin <- grep(sprintf("^```\\{r %s[,}]", name), lines)
  end <- grep("^```$", lines)
  lines[seq(begin + 1L, end[end > begin][[1L]] - 1L)]
}

# A session that runs the chunk as knitr would, with comments before what is printed.
script <- function(name, prelude = character()) {
  code <- file.path(folder, paste0(name, ".R"))
  writeLines(chunk(name), paste0(code, ".chunk"))
  writeLines(c(
    chunk("map"), prelude, "forked <- run(2)",
    sprintf("for (e in parse(%s)) {", deparse(paste0(code, ".chunk"))),
    "  shown <- withVisible(eval(e))", "  if (shown$visible) print(shown$value)", "}"
  ), code)
  code
}

write_output <- function(name, command) {
  text <- system2(command[[1L]], shQuote(command[-1L]), stdout = TRUE, stderr = TRUE)
  if (!is.null(attr(text, "status"))) stop(name, " has failed:\n", paste(text, collapse = "\n"))
  writeLines(text[nzchar(text)], file.path("vignettes", paste0("many-", name, ".txt")))
}

folder <- tempfile("sites-")
dir.create(folder)
rscript <- c(file.path(R.home("bin"), "Rscript"), "--vanilla")
wanted <- commandArgs(TRUE)
wants <- function(name) length(wanted) == 0L || name %in% wanted

if (wants("mirai")) write_output("mirai", c(rscript, script("mirai")))

if (wants("slurm")) local({
  helpers$local_slurm()
  write_output("slurm", c("salloc", "-Q", "-N2", "-n4", rscript, script("slurm")))
})

# The session is to find "ssh" and "Rscript" as a user would: what differs from a real site is before them on
# the PATH.
if (wants("ssh")) local({
  config <- file.path(folder, "config")
  for (name in c("blue", "green")) {
    ssh <- helpers$local_sshd(wrap = c("unshare", "--uts", "sh", "-c", paste("hostname", name, "&& exec \"$@\""), "sh"))
    cat(sprintf("Host %s\n  HostName 127.0.0.1\n", name), paste0("  ", readLines(ssh[[3L]]), "\n"),
      file = config, append = TRUE, sep = "")
  }
  bin <- file.path(folder, "bin")
  dir.create(bin)
  writeLines(c("#!/bin/sh", sprintf("exec %s -F %s \"$@\"", Sys.which("ssh"), config)), file.path(bin, "ssh"))
  Sys.chmod(file.path(bin, "ssh"), "755")
  # As ~/.Rprofile of the hosts would: where the package is.
  there <- sprintf("cluster_ssh <- function(...) regatta::cluster_ssh(..., env = %s)", deparse1(helpers$remote_env()))
  Sys.setenv(PATH = paste(bin, Sys.getenv("PATH"), sep = ":"))
  write_output("ssh", c(rscript, script("ssh", there)))
})
unlink(folder, recursive = TRUE)
