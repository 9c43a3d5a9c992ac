detritus <- detritus_snapshot()

memory_at <- function(root) .Call(regatta:::ffi_regatta_info_memory, root)
limits_at <- function(root) .Call(regatta:::ffi_regatta_info_limits, root)

meminfo <- c(
  "MemTotal:       16000 kB", "MemFree:         1000 kB", "MemAvailable:   12000 kB",
  "Buffers:           10 kB"
)
kib <- 1024

test_that("without control groups the machine's memory is what is available", {
  got <- memory_at(fake_machine(files = list("/proc/meminfo" = meminfo)))
  expect_identical(got[["total"]], 16000 * kib)
  expect_identical(got[["available"]], 12000 * kib)
  expect_identical(got[["cgroup_limit"]], Inf)
  expect_identical(got[["cgroup_use"]], NA_real_)
  expect_identical(got[["oom_kills"]], NA_real_)
})

test_that("the group with least room decides, page cache being room (version 1)", {
  at <- "/sys/fs/cgroup/memory"
  files <- list(
    "/proc/meminfo" = meminfo,
    "/sys/fs/cgroup/memory/memory.limit_in_bytes" = "9223372036854771712",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes" = "99999999",
    "/sys/fs/cgroup/memory/job/memory.limit_in_bytes" = "5000000",
    "/sys/fs/cgroup/memory/job/memory.usage_in_bytes" = "4500000",
    "/sys/fs/cgroup/memory/job/memory.stat" =
      c("inactive_file 1", "total_inactive_file 1000000", "total_active_file 500000"),
    "/sys/fs/cgroup/memory/job/step/memory.limit_in_bytes" = "8000000",
    "/sys/fs/cgroup/memory/job/step/memory.usage_in_bytes" = "4000000",
    "/sys/fs/cgroup/memory/job/step/memory.stat" = "total_inactive_file 0",
    "/sys/fs/cgroup/memory/job/step/memory.oom_control" =
      c("oom_kill_disable 0", "under_oom 0", "oom_kill 7"),
    "/sys/fs/cgroup/memory/job/memory.oom_control" = "oom_kill 100"
  )
  got <- memory_at(fake_machine("4:memory:/job/step", list(c("1", "memory", "/", at)), files))
  expect_identical(got[["available"]], 5000000 - (4500000 - 1500000))
  expect_identical(got[["cgroup_limit"]], 5000000)
  expect_identical(got[["cgroup_use"]], 3000000)
  expect_identical(got[["machine_available"]], 12000 * kib)
  expect_identical(got[["oom_kills"]], 7)
})

test_that("the group with least room decides (version 2)", {
  files <- list(
    "/proc/meminfo" = meminfo,
    "/cg/a/memory.max" = "6000000", "/cg/a/memory.current" = "7000000",
    "/cg/a/memory.stat" = c("anon 1", "inactive_file 0"),
    "/cg/a/b/memory.max" = "max", "/cg/a/b/memory.current" = "1",
    "/cg/a/b/memory.events" = c("low 0", "oom 4", "oom_kill 3", "oom_group_kill 0")
  )
  got <- memory_at(fake_machine("0::/a/b", list(c("2", "", "/", "/cg")), files))
  expect_identical(got[["available"]], 0)
  expect_identical(got[["cgroup_limit"]], 6000000)
  expect_identical(got[["oom_kills"]], 3)
})

test_that("a group that counts no kills leaves that to the machine", {
  files <- list("/proc/meminfo" = meminfo, "/proc/vmstat" = c("oom_kill 11", "x 1"))
  got <- memory_at(fake_machine("0::/", list(c("2", "", "/", "/cg")), files))
  expect_identical(got[["oom_kills"]], 11)
})

test_that("a limit larger than the machine changes nothing", {
  files <- list(
    "/proc/meminfo" = meminfo, "/cg/memory.max" = "99000000000", "/cg/memory.current" = "1"
  )
  got <- memory_at(fake_machine("0::/", list(c("2", "", "/", "/cg")), files))
  expect_identical(got[["available"]], 12000 * kib)
  expect_identical(got[["cgroup_limit"]], 99000000000)
})

test_that("the tightest limit of processes counts", {
  files <- list(
    "/cg/pids.max" = "1000", "/cg/pids.current" = "990",
    "/cg/a/pids.max" = "50", "/cg/a/pids.current" = "20", "/cg/a/b/pids.max" = "max"
  )
  got <- limits_at(fake_machine("3:pids:/a/b", list(c("1", "pids", "/", "/cg")), files))
  expect_identical(got[["cgroup_processes"]], 1000)
  expect_identical(got[["cgroup_processes_use"]], 990)
})

test_that("the limits are this process's", {
  skip_unless_linux()
  lines <- readLines("/proc/self/limits")
  files <- strsplit(sub("Max open files +", "", grep("^Max open files", lines, value = TRUE)), " +")
  limits <- regatta_info()$limits
  expect_identical(limits[c("files_soft", "files_hard")],
    c(files_soft = as.numeric(files[[1L]][[1L]]), files_hard = as.numeric(files[[1L]][[2L]])))
  out <- session_prints("cat(regatta::regatta_info()$limits[[\"files_soft\"]])",
    c("sh", "-c", "ulimit -n 500; exec \"$@\"", "sh"))
  expect_identical(out, "500")
})

test_that("this machine is described", {
  info <- regatta_info()
  expect_s3_class(info$cores, "regatta_workers")
  expect_gt(info$memory[["total"]], info$memory[["available"]])
  expect_gt(info$memory[["available"]], 0)
  expect_identical(info$r, as.character(getRversion()))
  expect_type(info$features, "logical")
  expect_false(anyNA(info$features))
  expect_gte(info$threads, 1L)
  skip_unless_linux()
  # One that collects the workers of a call before may end at any moment.
  wait_until(identical(regatta_info()$threads, length(list.files("/proc/self/task"))))
  expect_true(info$features[["unnamed_memory"]])
})

test_that("options show in the limits", {
  withr::local_options(regatta.shm_max = "2GB", regatta.shm_keep = "nonsense")
  limits <- regatta_info()$limits
  expect_identical(limits[["shm_max"]], 2e9)
  expect_identical(limits[["shm_keep"]], NA_real_)
})

# One description with every number known, so that what is printed can be compared as a whole.
described <- function() {
  local_no_wishes()
  files <- list(
    "/proc/meminfo" = meminfo, "/cg/memory.max" = "6000000", "/cg/memory.current" = "1000000",
    "/cg/memory.events" = "oom_kill 2", "/cg/pids.max" = "100", "/cg/pids.current" = "9"
  )
  info <- regatta:::info_read(fake_machine("0::/", list(c("2", "", "/", "/cg")), files))
  info[c("package", "r", "platform", "system")] <- list("1.0", "4.2.2", "x86_64", "Linux 6.1")
  info$cores <- regatta:::cores_decide(list(affinity = list(cores = 2L, why = "2 of 2 CPUs")))
  own <- c("files_soft", "files_hard", "processes_soft", "processes_hard", "address_space")
  info$limits[own] <- c(1024, 4096, 100, Inf, Inf)
  info$limits[c("dev_shm", "dev_shm_free")] <- c(64e6, NA)
  info$blas <- list(blas = "", lapack = "/lib/lapack.so", lapack_version = "3.11.0",
    threads = c(openmp = 2L))
  info$threads <- 1L
  info$features[] <- TRUE
  info$features[["pidfd"]] <- FALSE
  info
}

test_that("the description is printed for people", {
  expect_snapshot(writeLines(format(described())))
  shown <- capture.output(expect_invisible(print(described())))
  expect_identical(cli::ansi_strip(shown), format(described()))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
