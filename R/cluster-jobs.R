# Workers that a scheduler brings by jobs: one job for each worker, with the agent in it. What the schedulers have in
# common is here, what they differ in is in job_systems. The secret is in the job's script, which the user and the
# administrators can read.

cluster_jobs <- function(n, system, address, template = character(), submit = NULL, image = NULL,
                         rscript = NULL, env = NULL, packages = NULL, timeout = 60, deadline = 20,
                         min_workers = 1) {
  call <- sys.call()
  n <- check_count(n, "n")
  system <- check_choice(system, "system", names(job_systems))
  check_string(address, "address")
  if (!is.character(template) || anyNA(template)) {
    abort_argument("template", template, "lines of the job's script, such as its options")
  }
  check_string(image, "image", null = TRUE)
  if (system == "kubernetes" && is.null(image) && !any(grepl("{{script}}", template, fixed = TRUE))) {
    abort_argument("image", image, "the image of the containers, in which R and this package are")
  }
  spec <- job_systems[[system]]
  if (!is.null(submit)) spec$submit <- check_words(submit, "submit")
  spec$template <- job_template(spec$template, template, image)
  rscript <- check_words(if (is.null(rscript)) spec$rscript() else rscript, "rscript")
  env <- check_env(env)
  packages <- check_packages(packages)
  timeout <- check_seconds(timeout, "timeout")
  deadline <- check_deadline(deadline)
  min_workers <- check_count(min_workers, "min_workers", min = 0)
  need_crypto(call)
  pool <- remote_pool(rep(1L, n), paste(system, "job", seq_len(n)), address, deadline, packages,
    function(pool, at, numbers) {
      lapply(seq_along(at), function(i) {
        line <- remote_line(pool, pool$address, pool$port, numbers[[i]])
        script <- job_script(spec$template, c(job_secret(line), launch_rscript(rscript, env)))
        job_launch(spec, script, at[[i]], pool$hosts[[at[[i]]]]$name)
      })
    }
  )
  remote_start(pool, timeout, min_workers, call)
}

job_secret <- function(line) {
  c(paste0("REGATTA_NODE=", shQuote(line)), "export REGATTA_NODE")
}

rscript_here <- function() file.path(R.home("bin"), "Rscript")

# Of each scheduler: the command that takes a job on its stdin; how the job's name is found in what that prints (sed);
# whether the job is waiting or running, and what ends it, as lines of sh with the name in $id.
job_systems <- list(
  lsf = list(
    submit = "bsub", id = "s/^Job <\\([0-9]*\\)>.*/\\1/p", cancel = "bkill \"$id\"",
    alive = "bjobs -noheader \"$id\" 2>/dev/null | grep -Eq 'PEND|RUN|SUSP|PROV|WAIT'",
    template = c("#!/bin/sh", "#BSUB -J regatta", "#BSUB -o /dev/null", "{{script}}"), rscript = rscript_here
  ),
  pbs = list(
    submit = "qsub", id = "s/^\\([0-9][^ ]*\\)$/\\1/p", cancel = "qdel \"$id\"",
    alive = "qstat \"$id\" >/dev/null 2>&1",
    template = c("#!/bin/sh", "#PBS -N regatta", "#PBS -j oe", "#PBS -o /dev/null", "{{script}}"),
    rscript = rscript_here
  ),
  sge = list(
    submit = c("qsub", "-terse"), id = "s/^\\([0-9][0-9]*\\).*/\\1/p", cancel = "qdel \"$id\"",
    alive = "qstat -j \"$id\" >/dev/null 2>&1",
    template = c("#!/bin/sh", "#$ -N regatta", "#$ -S /bin/sh", "#$ -j y", "#$ -o /dev/null", "{{script}}"),
    rscript = rscript_here
  ),
  kubernetes = list(
    submit = c("kubectl", "create", "-o", "name", "-f", "-"), id = "s/^\\(job[^ ]*\\)$/\\1/p",
    cancel = "kubectl delete \"$id\" --wait=false",
    alive = "kubectl get \"$id\" -o 'jsonpath={.status.active}' 2>/dev/null | grep -q .",
    template = c(
      "apiVersion: batch/v1", "kind: Job", "metadata:", "  generateName: regatta-", "spec:", "  backoffLimit: 0",
      "  template:", "    spec:", "      restartPolicy: Never", "      containers:", "      - name: worker",
      "        image: {{image}}", "        command: [\"sh\", \"-c\"]", "        args:", "        - |",
      "          {{script}}"
    ),
    rscript = function() "Rscript"
  ),
  slurm = list(
    submit = c("sbatch", "--parsable"), id = "s/^\\([0-9][0-9]*\\).*/\\1/p", cancel = "scancel \"$id\"",
    alive = "squeue -h -j \"$id\" 2>/dev/null | grep -q .",
    template = c("#!/bin/sh", "#SBATCH --job-name=regatta", "#SBATCH --output=/dev/null", "{{script}}"),
    rscript = rscript_here
  )
)

# The user's lines are a whole document if they say where the script is to stand. Otherwise options come before all that
# is run, as schedulers read them.
job_template <- function(usual, lines, image) {
  if (any(grepl("{{script}}", lines, fixed = TRUE))) {
    usual <- lines
  } else {
    at <- match("{{script}}", usual, nomatch = length(usual) + 1L)
    is_option <- grepl("^#", lines)
    usual <- append(usual, c(lines[is_option], lines[!is_option]), at - 1L)
  }
  gsub("{{image}}", if (is.null(image)) "" else image, usual, fixed = TRUE)
}

# With the indent of the line where it is to stand.
job_script <- function(template, script) {
  unlist(lapply(template, function(line) {
    if (!grepl("{{script}}", line, fixed = TRUE)) {
      return(line)
    }
    paste0(sub("[{][{]script[}][}].*$", "", line), script)
  }))
}

# What is started here submits the job, waits for its end, and ends it when it is ended itself or the session is gone. A
# scheduler may not know yet what it has just accepted, or be busy: a job is over when it is not found three times.
job_launch <- function(spec, script, hosts, name) {
  watch <- paste(
    "said=$(\"$@\") || exit 1;",
    sprintf("id=$(printf '%%s\\n' \"$said\" | sed -n %s | head -n 1);", shQuote(spec$id)),
    "[ -n \"$id\" ] || { echo \"no job is named in: $said\" >&2; exit 1; };",
    sprintf("trap '%s; exit' TERM; missed=0;", spec$cancel),
    sprintf("while kill -0 %d 2>/dev/null && [ $missed -lt 3 ]; do", Sys.getpid()),
    sprintf("if %s; then missed=0; else missed=$((missed+1)); fi; sleep 2 & wait $!; done;", spec$alive),
    sprintf("%s 2>/dev/null", spec$cancel)
  )
  launch_start(c("sh", "-c", watch, "submit", spec$submit), script, hosts, name, watches = TRUE)
}
