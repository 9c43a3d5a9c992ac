# The clock of the day jumps, as when a machine wakes up or is set right: deadlines, limits, signs of life and times of
# the record are by the monotonic clock.
withr::with_preserve_seed(remote_warm())
detritus <- detritus_snapshot()

test_that("maps do not notice that the clock jumps by hours, in the session or in workers", {
  skip_unless_linux()
  if (!.Call(regatta:::ffi_crypto_available)) skip("built without libsodium")
  # Every other time that is asked for is ten hours ahead.
  shim <- fault_compile(c(
    "#define _GNU_SOURCE", "#include <dlfcn.h>", "#include <sys/time.h>", "#include <time.h>",
    "static long jump(void) { static int n; return ++n % 2 ? 36000 : 0; }",
    "int clock_gettime(clockid_t id, struct timespec *at) {",
    "  static int (*real)(clockid_t, struct timespec *);",
    "  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, \"clock_gettime\");",
    "  int got = real(id, at);",
    "  if (got == 0 && id == CLOCK_REALTIME) at->tv_sec += jump();",
    "  return got;", "}",
    "int timespec_get(struct timespec *at, int base) {",
    "  return clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;", "}",
    "time_t time(time_t *at) {",
    "  struct timespec now;", "  clock_gettime(CLOCK_REALTIME, &now);", "  if (at) *at = now.tv_sec;",
    "  return now.tv_sec;", "}",
    "int gettimeofday(struct timeval *at, void *zone) {",
    "  struct timespec now;", "  (void)zone;", "  clock_gettime(CLOCK_REALTIME, &now);",
    "  at->tv_sec = now.tv_sec;", "  at->tv_usec = now.tv_nsec / 1000;", "  return 0;", "}"
  ), "clock", preload = TRUE)
  got <- fault_run(function(rscript, env, shell) {
    f <- function(i) {
      before <- Sys.time()
      jumps <- FALSE
      for (k in 1:5) jumps <- jumps || abs(as.numeric(Sys.time()) - as.numeric(before)) > 3600
      Sys.sleep(0.01)
      list(i, runif(1), jumps)
    }
    run <- function(on) {
      got <- par_lapply(1:10, f, .on = on, .control = par_control(seed = 1L, progress = FALSE, timeout = 60))
      elements <- par_last()$elements
      list(got, all(elements$end - elements$start < 60 & elements$end >= elements$start))
    }
    pool <- cluster_local(2L)
    programs <- cluster_local(1L, start = "parallel")
    hosts <- cluster_ssh("one", 2, rscript = rscript, env = env, ssh = shell, tunnel = FALSE, address = "127.0.0.1")
    all <- list(run(2), run(pool), run(programs), run(hosts))
    states <- cluster_status(hosts)$state
    for (cl in list(pool, programs, hosts)) parallel::stopCluster(cl)
    list(all, states)
  }, list(rscript = remote_rscript(), env = remote_env(), shell = shell_script()), env = c(LD_PRELOAD = shim),
  timeout = 100)$value
  expected <- par_lapply(1:10, function(i) list(i, runif(1), TRUE), .control = two_workers())
  for (one in got[[1L]]) expect_identical(one, list(expected, TRUE))
  expect_identical(got[[2L]], c("idle", "idle"))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
