detritus <- detritus_snapshot()

cores_of <- function(source, root = "") {
  regatta:::cores_read(source, root)[[1L]]$cores
}

decided_by <- function(x) attr(x, "source")

quota <- function(root) .Call(regatta:::ffi_workers_available, root)$quota

test_that("the number of workers is a whole number that says where it is from", {
  local_no_wishes()
  available <- workers_available()
  expect_type(available, "integer")
  expect_gte(as.integer(available), 1L)
  expect_true(decided_by(available) %in% c("affinity", "cgroup"))
  expect_identical(length(seq_len(available)), as.integer(available))
  expect_identical(available - 1L, as.integer(available) - 1L)
  expect_identical(sqrt(available), sqrt(as.integer(available)))
  expect_identical(-available, -as.integer(available))
  expect_identical(max(available, 1L), as.integer(available))
  expect_identical(sprintf("%d", available), as.character(as.integer(available)))
})

test_that("the affinity mask is honoured", {
  skip_unless_command("taskset")
  allowed <- sub(".*: *", "", system2("taskset", c("-cp", Sys.getpid()), stdout = TRUE))
  first <- regmatches(allowed, regexpr("^[0-9]+", allowed))
  code <- "cat(regatta::workers_available(\"affinity\"))"
  expect_identical(session_prints(code, c("taskset", "-c", first)), "1")
  expect_identical(session_prints(code, c("taskset", "-c", allowed)), format(cores_of("affinity")))
})

test_that("a version 1 quota anywhere above counts, and the tightest decides", {
  local_no_wishes()
  base <- "/sys/fs/cgroup/cpu,cpuacct"
  root <- fake_machine(
    c("3:memory:/other", "2:cpu,cpuacct:/a/b/c", "1:name=systemd:/x"),
    list(c("1", "memory", "/", "/sys/fs/cgroup/memory"), c("1", "cpu,cpuacct", "/", base)),
    list(
      "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us" = "-1",
      "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us" = "100000",
      "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us" = "150000",
      "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us" = "100000",
      "/sys/fs/cgroup/cpu,cpuacct/a/b/c/cpu.cfs_quota_us" = "400000",
      "/sys/fs/cgroup/cpu,cpuacct/a/b/c/cpu.cfs_period_us" = "50000"
    )
  )
  expect_identical(quota(root), 1.5)
  expect_identical(cores_of("cgroup", root), 2L)
  reading <- regatta:::cores_read("cgroup", root)$cgroup
  expect_match(reading$why, "quota of 1.5 CPUs, .*/a/cpu.cfs_quota_us$")
})

test_that("a version 2 quota anywhere above counts", {
  root <- fake_machine(
    "0::/user.slice/job.scope", list(c("2", "", "/", "/sys/fs/cgroup")),
    list(
      "/sys/fs/cgroup/user.slice/job.scope/cpu.max" = "max 100000",
      "/sys/fs/cgroup/user.slice/cpu.max" = "300000 100000"
    )
  )
  expect_identical(quota(root), 3)
  expect_identical(cores_of("cgroup", root), 3L)
})

test_that("both versions at once are read", {
  root <- fake_machine(
    c("4:cpu:/v1", "0::/v2"),
    list(c("2", "", "/", "/sys/fs/cgroup/unified"), c("1", "cpu", "/", "/sys/fs/cgroup/cpu")),
    list(
      "/sys/fs/cgroup/cpu/v1/cpu.cfs_quota_us" = "500000",
      "/sys/fs/cgroup/cpu/v1/cpu.cfs_period_us" = "100000",
      "/sys/fs/cgroup/unified/v2/cpu.max" = "200000 100000"
    )
  )
  expect_identical(quota(root), 2)
  writeLines("700000 100000", file.path(root, "sys/fs/cgroup/unified/v2/cpu.max"))
  expect_identical(quota(root), 5)
})

test_that("a container's mount shows its own group at the top", {
  files <- list(
    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us" = "250000",
    "/sys/fs/cgroup/cpu/cpu.cfs_period_us" = "100000",
    "/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us" = "110000",
    "/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us" = "100000"
  )
  mounts <- list(c("1", "cpu", "/docker/abc", "/sys/fs/cgroup/cpu"))
  expect_identical(quota(fake_machine("2:cpu:/docker/abc", mounts, files)), 2.5)
  expect_identical(quota(fake_machine("2:cpu:/docker/abc/inner", mounts, files)), 1.1)
  expect_identical(quota(fake_machine("2:cpu:/docker/abcd/inner", mounts, files)), 2.5)
  expect_identical(quota(fake_machine("2:cpu:/../elsewhere", mounts, files)), 2.5)
})

test_that("of several mounts the one that shows most ancestors is read", {
  root <- fake_machine(
    "0::/a/b",
    list(c("2", "", "/a/b", "/inner mount"), c("2", "", "/", "/whole"), c("2", "", "/a", "/mid")),
    list(
      "/inner mount/cpu.max" = "900000 100000", "/whole/a/b/cpu.max" = "900000 100000",
      "/whole/a/cpu.max" = "400000 100000", "/mid/cpu.max" = "100000 100000"
    )
  )
  expect_identical(quota(root), 4)
  writeLines(mount_line(1L, c("2", "", "/a/b", "/inner mount")),
    file.path(root, "proc/self/mountinfo"))
  expect_identical(quota(root), 9)
})

test_that("a machine without control groups has no quota, and neither has a broken one", {
  expect_identical(quota(fake_machine()), Inf)
  expect_identical(quota(file.path(withr::local_tempdir(), "none")), Inf)
  mounts <- list(c("2", "", "/", "/sys/fs/cgroup"))
  for (text in c("", "max", "0 100000", "-1 100000", "100000 0", "many 100000", "100000")) {
    root <- fake_machine("0::/", mounts, list("/sys/fs/cgroup/cpu.max" = text))
    expect_identical(quota(root), Inf, info = text)
  }
  long <- paste(rep("x", 20000L), collapse = "")
  root <- fake_machine(c(long, paste0("0::/", long), "7:cpu", "", "0::/"), mounts,
    list("/sys/fs/cgroup/cpu.max" = "200000 100000"))
  expect_identical(quota(root), 2)
})

test_that("half a CPU counts as one, and nothing is less than one worker", {
  cores <- function(text) {
    mounts <- list(c("2", "", "/", "/sys/fs/cgroup"))
    cores_of("cgroup", fake_machine("0::/", mounts, list("/sys/fs/cgroup/cpu.max" = text)))
  }
  expect_identical(cores("10000 100000"), 1L)
  expect_identical(cores("149000 100000"), 1L)
  expect_identical(cores("150000 100000"), 2L)
  expect_identical(cores("max 100000"), NA_integer_)
})

test_that("a real control group with a quota is read", {
  skip_unless_linux()
  group <- file.path("/sys/fs/cgroup/cpu", paste0("regatta-test-", Sys.getpid()))
  made <- is_root() && file.exists("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") &&
    suppressWarnings(dir.create(group))
  if (!made) skip("no version 1 cpu control group can be made here")
  withr::defer(unlink(group, recursive = TRUE))
  withr::defer(system2("rmdir", group))
  writeLines("100000", file.path(group, "cpu.cfs_quota_us"))
  out <- session_prints(c(
    sprintf("writeLines(as.character(Sys.getpid()), \"%s/cgroup.procs\")", group),
    "x <- regatta::workers_available(\"cgroup\")",
    "cat(as.integer(x), attr(x, \"why\"))"
  ))
  expect_identical(out, sprintf("1 quota of 1 CPUs, %s/cpu.cfs_quota_us", group))
})

test_that("schedulers' variables are read", {
  local_no_wishes()
  for (source in c("slurm", "pbs", "lsf", "sge", "mc.cores", "check", "worker")) {
    expect_identical(cores_of(source), NA_integer_, info = source)
  }
  cases <- list(
    list("slurm", c(SLURM_CPUS_PER_TASK = "3", SLURM_CPUS_ON_NODE = "8"), 3L),
    list("slurm", c(SLURM_CPUS_ON_NODE = "8"), 8L),
    list("pbs", c(PBS_NUM_PPN = "5", NCPUS = "40"), 5L), list("pbs", c(NCPUS = "6"), 6L),
    list("lsf", c(LSB_DJOB_NUMPROC = "7"), 7L), list("sge", c(NSLOTS = "9"), 9L),
    list("worker", c(REGATTA_SHARE = "2"), 2L), list("mc.cores", c(MC_CORES = "4"), 4L),
    list("check", c("_R_CHECK_LIMIT_CORES_" = "TRUE"), 2L),
    list("check", c("_R_CHECK_LIMIT_CORES_" = "warn"), 2L),
    list("check", c("_R_CHECK_LIMIT_CORES_" = "False"), NA_integer_)
  )
  for (case in cases) {
    withr::with_envvar(case[[2L]], {
      expect_identical(cores_of(case[[1L]]), case[[3L]], info = paste(case, collapse = " "))
    })
  }
})

test_that("tasks of a Slurm step share the CPUs of their node", {
  local_no_wishes()
  step <- function(node, tasks = "2(x2),4", id = "0") {
    withr::with_envvar(c(
      SLURM_CPUS_ON_NODE = "8", SLURM_STEP_ID = id, SLURM_NODEID = node,
      SLURM_STEP_TASKS_PER_NODE = tasks
    ), cores_of("slurm"))
  }
  expect_identical(step("0"), 4L)
  expect_identical(step("1"), 4L)
  expect_identical(step("2"), 2L)
  expect_identical(step("3"), 8L)
  expect_identical(step("0", "16"), 1L)
  expect_identical(step("0", "1"), 8L)
  expect_identical(step("0", "nonsense"), 8L)
  expect_identical(step("0", id = "batch"), 8L)
})

test_that("of a job on several hosts this host's slots count", {
  local_no_wishes()
  here <- Sys.info()[["nodename"]]
  withr::local_envvar(
    LSB_DJOB_NUMPROC = "10", LSB_MCPU_HOSTS = sprintf("other.example.org 6 %s 4", here)
  )
  expect_identical(cores_of("lsf"), 4L)
  withr::local_envvar(LSB_MCPU_HOSTS = "one 6 two 4")
  expect_identical(cores_of("lsf"), 10L)
  hosts <- withr::local_tempfile(lines = c(
    sprintf("%s.example.org 3 all.q@x UNDEFINED", sub("[.].*", "", here)),
    "other 5 all.q@y UNDEFINED"
  ))
  withr::local_envvar(NSLOTS = "8", PE_HOSTFILE = hosts)
  expect_identical(cores_of("sge"), 3L)
  withr::local_envvar(PE_HOSTFILE = file.path(dirname(hosts), "none"))
  expect_identical(cores_of("sge"), 8L)
})

test_that("mc.cores lowers and never raises, and the option goes before the variable", {
  local_no_wishes()
  machine <- workers_available()
  withr::local_envvar(MC_CORES = "1")
  expect_identical(as.integer(workers_available()), 1L)
  withr::local_options(mc.cores = as.integer(machine) + 5L)
  expect_identical(as.integer(workers_available()), as.integer(machine))
  expect_identical(decided_by(workers_available()), decided_by(machine))
  withr::local_options(mc.cores = 0)
  expect_identical(as.integer(workers_available()), 1L)
  for (wrong in list("many", -1, 1.5, NA, c(1, 2), character())) {
    withr::local_options(mc.cores = wrong)
    expect_identical(cores_of("mc.cores"), NA_integer_)
  }
})

test_that("a source that cannot be read is named and ignored", {
  local_no_wishes()
  withr::local_envvar(NSLOTS = "lots")
  text <- format(workers_available(c("affinity", "sge")))
  expect_match(text[[2L]], "sge is ignored: NSLOTS = \"lots\" is no number of cores", fixed = TRUE)
})

test_that("only the sources asked for are read", {
  local_no_wishes()
  withr::local_envvar(NSLOTS = "3", REGATTA_SHARE = "1")
  expect_identical(as.integer(workers_available("sge")), 3L)
  expect_identical(decided_by(workers_available(c("sge", "worker"))), "worker")
  nothing <- workers_available("lsf")
  expect_identical(c(as.integer(nothing), decided_by(nothing)), c("1", "none"))
  expect_error(workers_available("moon"), class = "regatta_error_argument")
  expect_error(workers_available(2), "`sources` must be", class = "regatta_error_argument")
})

test_that("what is printed names the source that decided and the others", {
  local_no_wishes()
  withr::local_options(mc.cores = 1L)
  withr::local_envvar(NSLOTS = "3", PBS_NUM_PPN = "none")
  expect_snapshot({
    print(workers_available(c("sge", "mc.cores", "pbs")))
    print(workers_available("lsf"))
  })
})

test_that("what a call knows of the cores follows whatever they are decided by", {
  local_no_wishes()
  read <- function() as.integer(workers_available())
  known <- function() c(cores_known(), cores_known())
  expect_identical(known(), rep(read(), 2L))
  withr::local_options(mc.cores = 1L)
  expect_identical(known(), c(1L, 1L))
  withr::local_options(mc.cores = NULL)
  expect_identical(known(), rep(read(), 2L))
  withr::local_envvar(REGATTA_SHARE = "1")
  expect_identical(known(), c(1L, 1L))
  withr::local_envvar(REGATTA_SHARE = NA)
  hosts <- withr::local_tempfile()
  withr::local_envvar(NSLOTS = "64", PE_HOSTFILE = hosts)
  for (slots in c("1", "2")) {
    writeLines(paste(c(Sys.info()[["nodename"]], "elsewhere"), c(slots, "9"), "all.q", "UNDEFINED"), hosts)
    expect_identical(known(), rep(read(), 2L))
  }
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
