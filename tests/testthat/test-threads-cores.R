detritus <- detritus_snapshot()

# The headers count cores as workers_available() does.

hosts_file <- function(env = parent.frame()) {
  here <- Sys.info()[["nodename"]]
  withr::local_tempfile(fileext = ".hosts", .local_envir = env, lines = c(
    "other-host 7 all.q@other <NULL>", paste(here, "1 all.q@here <NULL>")
  ))
}

environments <- function(hosts) {
  here <- Sys.info()[["nodename"]]
  list(
    none = character(),
    slurm = c(SLURM_CPUS_PER_TASK = "1"),
    slurm_not_a_number = c(SLURM_CPUS_PER_TASK = "many"),
    slurm_number_of_double = c(SLURM_CPUS_PER_TASK = "1.0"),
    slurm_fraction = c(SLURM_CPUS_PER_TASK = "1.5"),
    slurm_first_decides = c(SLURM_CPUS_PER_TASK = "0", SLURM_CPUS_ON_NODE = "1"),
    slurm_node = c(SLURM_CPUS_ON_NODE = "1"),
    slurm_step = c(SLURM_CPUS_ON_NODE = "4", SLURM_STEP_ID = "0",
      SLURM_STEP_TASKS_PER_NODE = "1,4(x2)", SLURM_NODEID = "2"),
    slurm_step_other_node = c(SLURM_CPUS_ON_NODE = "3", SLURM_STEPID = "0",
      SLURM_STEP_TASKS_PER_NODE = "3(x2),1", SLURM_NODEID = "1"),
    slurm_batch = c(SLURM_CPUS_ON_NODE = "2", SLURM_STEP_ID = "batch",
      SLURM_STEP_TASKS_PER_NODE = "2"),
    slurm_list_unreadable = c(SLURM_CPUS_ON_NODE = "2", SLURM_STEP_ID = "1",
      SLURM_STEP_TASKS_PER_NODE = "2(y3)"),
    pbs = c(PBS_NUM_PPN = "1"),
    ncpus = c(NCPUS = "1"),
    lsf = c(LSB_DJOB_NUMPROC = "1"),
    lsf_hosts = c(LSB_DJOB_NUMPROC = "9", LSB_MCPU_HOSTS = paste("elsewhere 8", here, "1")),
    lsf_twice_here = c(LSB_DJOB_NUMPROC = "1", LSB_MCPU_HOSTS = paste(here, "2", here, "2")),
    sge = c(NSLOTS = "1"),
    sge_hosts = c(NSLOTS = "8", PE_HOSTFILE = hosts),
    sge_no_file = c(NSLOTS = "1", PE_HOSTFILE = "/nowhere/at/all"),
    mc_cores = c(MC_CORES = "1"),
    check = c("_R_CHECK_LIMIT_CORES_" = "true"),
    check_off = c("_R_CHECK_LIMIT_CORES_" = "FALSE"),
    share = c(REGATTA_SHARE = "1"),
    share_zero = c(REGATTA_SHARE = "0"),
    several = c(NSLOTS = "1", SLURM_CPUS_PER_TASK = "2", LSB_DJOB_NUMPROC = "3")
  )
}

cores_library <- compiled_once(function(env) threads_compile("threads-cores.cpp", env = env))

test_that("cores are counted as workers_available() counts them", {
  local_no_wishes()
  withr::local_envvar(REGATTA_THREADS = NA)
  library <- cores_library()
  count <- function(library, environments) {
    dll <- dyn.load(library)
    cores <- getNativeSymbolInfo("cores", dll)
    both <- function() c(package = as.integer(workers_available()), headers = .Call(cores))
    counted <- lapply(environments, function(variables) {
      before <- Sys.getenv(names(variables), NA, names = TRUE)
      if (length(variables) > 0L) do.call(Sys.setenv, as.list(variables))
      value <- both()
      Sys.unsetenv(names(before))
      value
    })
    options(mc.cores = 1L)
    one <- both()
    options(mc.cores = 0L)
    list(counted = counted, one = one, zero = both())
  }
  hosts <- hosts_file()
  # More cores than the machine has would hide what a variable says.
  got <- fault_run(count, list(library, environments(hosts)))$value
  differ <- Filter(function(pair) pair[["package"]] != pair[["headers"]], got$counted)
  expect_identical(differ, stats::setNames(list(), character()))
  expect_identical(unname(got$one), c(1L, 1L))
  expect_identical(unname(got$zero), c(1L, 1L))
  if (got$counted$none[["package"]] > 1L) {
    lowered <- c("slurm", "slurm_node", "slurm_step", "slurm_step_other_node", "pbs", "ncpus",
      "lsf", "lsf_hosts", "sge", "sge_hosts", "sge_no_file", "mc_cores", "share", "several")
    expect_true(all(vapply(got$counted[lowered], `[[`, 1L, "headers") == 1L))
  }
})

test_that("quotas are found where workers_available() finds them", {
  local_no_wishes()
  base <- "/sys/fs/cgroup/cpu,cpuacct"
  machines <- list(
    fake_machine(),
    fake_machine("0::/", list(c("2", "", "/", "/sys/fs/cgroup")),
      list("/sys/fs/cgroup/cpu.max" = "50000 100000")),
    fake_machine("0::/user.slice/job.scope", list(c("2", "", "/", "/sys/fs/cgroup")), list(
      "/sys/fs/cgroup/user.slice/job.scope/cpu.max" = "max 100000",
      "/sys/fs/cgroup/user.slice/cpu.max" = "300000 100000"
    )),
    fake_machine(c("3:memory:/other", "2:cpu,cpuacct:/a/b/c", "1:name=systemd:/x"),
      list(c("1", "memory", "/", "/sys/fs/cgroup/memory"), c("1", "cpu,cpuacct", "/", base)), list(
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us" = "-1",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us" = "100000",
        "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us" = "150000",
        "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us" = "100000"
      )),
    # A container: the mount shows a group in the middle, at a place with a blank.
    fake_machine("0::/docker/abc/sub", list(c("2", "", "/docker/abc", "/my mounts/cg")),
      list("/my mounts/cg/sub/cpu.max" = "250000 100000", "/my mounts/cg/cpu.max" = "150000 100000")),
    # Both versions, each with a quota.
    fake_machine(c("4:cpu:/one", "0::/two"),
      list(c("2", "", "/", "/sys/fs/cgroup/unified"), c("1", "cpu", "/", "/sys/fs/cgroup/cpu")), list(
        "/sys/fs/cgroup/unified/two/cpu.max" = "700000 100000",
        "/sys/fs/cgroup/cpu/one/cpu.cfs_quota_us" = "600000",
        "/sys/fs/cgroup/cpu/one/cpu.cfs_period_us" = "100000"
      ))
  )
  library <- cores_library()
  read <- function(library, machines) {
    quota <- getNativeSymbolInfo("quota", dyn.load(library))
    vapply(machines, function(root) .Call(quota, root), 0)
  }
  wanted <- vapply(machines, function(root) .Call(regatta:::ffi_workers_available, root)$quota, 0)
  wanted[is.infinite(wanted)] <- 0
  expect_identical(wanted, c(0, 0.5, 3, 1.5, 1.5, 6))
  expect_identical(fault_run(read, list(library, machines))$value, wanted)
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
