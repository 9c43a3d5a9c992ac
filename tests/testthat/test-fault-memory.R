detritus <- detritus_snapshot()

test_that("a /dev/shm of 4 MB makes no difference", {
  skip_unless_linux()
  got <- fault_run(function() {
    size <- as.numeric(system("df --output=size -k /dev/shm | tail -n 1", intern = TRUE))
    values <- par_lapply(1:4, function(i) rep(i + 0, 4e6),
      .control = par_control(workers = 2L, progress = FALSE))
    shared <- unserialize(with_shm_handles(serialize(shm_share(rep(1.5, 8e6)), NULL)))
    array <- shm_array(8e6)
    array[8e6] <- 2
    list(
      size = size, sums = vapply(values, sum, 0), left = list.files("/dev/shm"),
      shared = sum(shared), array = sum(array)
    )
  }, wrap = small_disk("4m", "/dev/shm"))$value
  expect_equal(got$size, 4096)
  expect_identical(got$sums, 1:4 * 4e6)
  expect_identical(c(got$shared, got$array), c(1.2e7, 2))
  expect_identical(got$left, character())
})

# Files in memory are full at REGATTA_TEST_FULL bytes: what goes beyond is refused with ENOSPC.
full_memory <- function(env = parent.frame()) {
  fault_compile(c(
    "#define _GNU_SOURCE",
    "#include <dlfcn.h>",
    "#include <errno.h>",
    "#include <stdio.h>",
    "#include <stdlib.h>",
    "#include <string.h>",
    "#include <sys/types.h>",
    "#include <unistd.h>",
    "static off_t room(int fd, off_t at) {",
    "  const char *limit = getenv(\"REGATTA_TEST_FULL\");",
    "  char name[64], target[64] = \"\";",
    "  snprintf(name, sizeof name, \"/proc/self/fd/%d\", fd);",
    "  if (!limit || readlink(name, target, sizeof target - 1) < 0) return 1L << 62;",
    "  return strncmp(target, \"/memfd:\", 7) == 0 ? atoll(limit) - at : 1L << 62;",
    "}",
    "#define REAL(name) dlsym(RTLD_NEXT, name)",
    "ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {",
    "  off_t left = room(fd, at);",
    "  if (left <= 0) { errno = ENOSPC; return -1; }",
    "  return ((ssize_t (*)(int, const void *, size_t, off_t))REAL(\"pwrite\"))",
    "    (fd, data, n < (size_t)left ? n : (size_t)left, at);",
    "}",
    "ssize_t pwrite64(int fd, const void *data, size_t n, off_t at) {",
    "  return pwrite(fd, data, n, at);",
    "}",
    "int fallocate(int fd, int mode, off_t at, off_t n) {",
    "  if (mode == 0 && room(fd, at) < n) { errno = ENOSPC; return -1; }",
    "  return ((int (*)(int, int, off_t, off_t))REAL(\"fallocate\"))(fd, mode, at, n);",
    "}",
    "int fallocate64(int fd, int mode, off_t at, off_t n) {",
    "  return fallocate(fd, mode, at, n);",
    "}"
  ), "full", preload = TRUE, env = env)
}

test_that("shared memory that is full is an error with numbers, and never SIGBUS", {
  skip_unless_linux()
  shim <- full_memory()
  got <- fault_run(function() {
    control <- par_control(workers = 2L, progress = FALSE, dump = "no", errors = "collect")
    f <- function(i) rep(i + 0, if (i == 2L) 6e6 else 1e5)
    full <- suppressWarnings(par_lapply(1:4, f, .control = control))
    list(
      error = full[[2L]], sums = vapply(full[-2L], sum, 0),
      again = par_lapply(1:3, identity, .control = control)
    )
  }, env = c(LD_PRELOAD = shim, REGATTA_TEST_FULL = "32000000"))$value
  memory <- find_condition(got$error, "regatta_error_memory")
  expect_s3_class(memory, "regatta_error_memory")
  expect_gte(memory$requested, 4.8e7)
  expect_true(is.finite(memory$available))
  expect_match(conditionMessage(got$error), "shared memory")
  expect_match(conditionMessage(got$error), "48(\\.0)? MB|available")
  expect_identical(got$sums, c(1, 3, 4) * 1e5)
  expect_identical(got$again, as.list(1:3))
})

test_that("a limit on file sizes kills no worker", {
  skip_unless_linux()
  skip_unless_command("prlimit")
  got <- fault_run(function() {
    suppressWarnings(par_lapply(1:3, function(i) rep(i + 0, if (i == 2L) 6e6 else 1e3),
      .control = par_control(workers = 2L, progress = FALSE, dump = "no", errors = "collect")))
  }, wrap = c("prlimit", "--fsize=16000000"))$value
  expect_identical(got[c(1L, 3L)], list(rep(1, 1e3), rep(3, 1e3)))
  expect_true(
    identical(got[[2L]], rep(2, 6e6)) ||
      !is.null(find_condition(got[[2L]], "regatta_error_memory"))
  )
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
