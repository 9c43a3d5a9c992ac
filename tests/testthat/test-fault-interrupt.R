detritus <- detritus_snapshot()

test_that("Ctrl-C at random moments leaves nothing, and the next call works", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (group in c(TRUE, FALSE)) {
    expect_identical(
      interrupt_often("short", 8L, group = group), rep(clean_interrupt, 8L)
    )
  }
})

test_that("Ctrl-C ends elements that sleep, wait for a command, or will not be interrupted", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (kind in c("long", "grandchild", "stubborn", "catching", "chatty")) {
    expect_identical(interrupt_often(kind, 2L), rep(clean_interrupt, 2L))
  }
  expect_identical(interrupt_often("long", 2L, group = FALSE), rep(clean_interrupt, 2L))
  expect_identical(interrupt_often("grandchild", 2L, group = FALSE), rep(clean_interrupt, 2L))
})

test_that("a second Ctrl-C while the first is handled leaves nothing either", {
  skip_unless_linux()
  withr::local_preserve_seed()
  for (kind in c("short", "stubborn")) {
    expect_identical(interrupt_often(kind, 4L, twice = TRUE), rep(clean_interrupt, 4L))
  }
})

test_that("Ctrl-C in a script that does not catch it ends the script and all its workers", {
  skip_unless_linux()
  session <- local_session(function() {
    par_lapply(1:4, function(i) {
      cat("busy\n")
      system("sleep 300")
    }, .control = par_control(workers = 2L, progress = FALSE, batch = 1L))
  })
  fault_wait_line(session, "busy", times = 2L)
  signal_group(session$process$get_pid(), "INT")
  wait_until(function() !session$process$is_alive(), 60, "the end of the script")
  wait_until(function() length(marked_pids(session$mark)) == 0L, 60, "the end of its children")
  expect_length(marked_pids(session$mark), 0L)
})

test_that("Ctrl-C while a value of par_call() is waited for ends that call", {
  skip_unless_linux()
  session <- local_session(function() {
    suspendInterrupts({
      handle <- par_call(system("sleep 300"), .control = par_control(progress = FALSE))
      first <- tryCatch(allowInterrupts({
        cat("go\n")
        par_value(handle)
      }), interrupt = function(e) "interrupt")
      again <- tryCatch(par_value(handle), error = function(e) class(e)[[1L]])
      list(first, again, par_value(par_call(1 + 1)))
    })
  })
  fault_wait_line(session, "go")
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  expect_identical(fault_value(session)$value, list("interrupt", "regatta_error_lost", 2))
})

# A library that sends the process SIGINT when code of the package looks for an interrupt for the nth time
# from now on, with .C("arm", n); .C("looks", 0L) tells how often it has looked since.
interrupt_at_look <- function(env = parent.frame()) {
  fault_compile(c(
    "#define _GNU_SOURCE",
    "#include <dlfcn.h>",
    "#include <signal.h>",
    "#include <string.h>",
    "static int looks, nth;",
    "void arm(int *n) { looks = 0; nth = *n; }",
    "void looks_made(int *n) { *n = looks; }",
    "void R_CheckUserInterrupt(void) {",
    "  Dl_info from;",
    "  int ours = dladdr(__builtin_return_address(0), &from) && strstr(from.dli_fname, \"regatta.so\");",
    "  if (ours && ++looks == nth) raise(SIGINT);",
    "  ((void (*)(void))dlsym(RTLD_NEXT, \"R_CheckUserInterrupt\"))();",
    "}"
  ), "look", preload = TRUE, env = env)
}

test_that("Ctrl-C is heard while a lot of memory is written, read or copied", {
  skip_unless_linux()
  shim <- interrupt_at_look()
  got <- fault_run(function(shim) {
    dyn.load(shim)
    looks <- function() .C("looks_made", 0L)[[1L]]
    name <- sprintf("/regatta-look-%d", Sys.getpid())
    numbers <- rep(c(1, 2.5), 5e6)
    strings <- sprintf("s%d", seq_len(2.2e6))
    array <- shm_array(4e6)
    encoded <- c(charToRaw("S"), serialize(as.list(seq_len(4e5) + 0.5), NULL, xdr = FALSE))
    work <- list(
      share = function() sum(shm_share(numbers)),
      strings = function() length(shm_share(strings)),
      few_strings = function() length(shm_share(rep(strings[1:9], length.out = 4e6))),
      array = function() length(shm_array(1e7)),
      fill = function() {
        array[] <- 7
        sum(array)
      },
      copy = function() {
        array[] <- 1:4e6
        sum(array)
      },
      positions = function() {
        array[as.integer(4e6:1)] <- 1:4e6
        array[[1L]]
      },
      write = function() {
        object <- copy2shm(numbers, name, overwrite = TRUE)
        file.remove(file.path("/dev/shm", name))
        object$size
      },
      read = function() {
        object <- copy2shm(numbers, name, overwrite = TRUE)
        .C("arm", get("nth", globalenv()))
        sum(allocate_from_shm(object, copy = TRUE))
      },
      map = function() length(char_map(strings)$chars),
      decode = function() length(.Call(regatta:::ffi_cluster_decode, encoded, FALSE))
    )
    try_it <- function(f, nth) {
      assign("nth", nth, globalenv())
      .C("arm", nth)
      suspendInterrupts(tryCatch(allowInterrupts(f()), interrupt = function(e) "interrupted"))
    }
    left <- function() {
      gc()
      c(nrow(shm_info()$regions), file.exists(file.path("/dev/shm", name)))
    }
    before <- left()
    try_it(work$share, -1L)
    if (looks() == 0L) return("none of the looks is seen")
    lapply(work, function(f) {
      first <- try_it(f, 2L)
      after <- left()
      c(first, identical(after, before), try_it(f, -1L))
    })
  }, list(shim), env = c(LD_PRELOAD = shim))$value
  skip_if(is.character(got), "this R is no shared library")
  values <- c(
    share = 1.75e7, strings = 2.2e6, few_strings = 4e6, array = 1e7, fill = 2.8e7,
    copy = sum(1:4e6), positions = 4e6, write = 8e7, read = 1.75e7, map = 2.2e6, decode = 4e5
  )
  for (name in names(values)) {
    expect_identical(got[[!!name]][1:2], c("interrupted", "TRUE"))
    expect_identical(as.numeric(got[[!!name]][[3L]]), values[[!!name]])
  }
})

test_that("Ctrl-C ends the wait for a lock that another process has", {
  skip_unless_linux()
  session <- local_session(function() {
    lock <- shm_lock()
    holder <- par_call(with_shm_lock(lock, {
      cat("held\n")
      Sys.sleep(300)
    }), .control = par_control(progress = FALSE))
    while (tryCatch(with_shm_lock(lock, TRUE, timeout = 0), error = function(e) FALSE)) Sys.sleep(0.01)
    suspendInterrupts(tryCatch(allowInterrupts({
      cat("go\n")
      with_shm_lock(lock, "got it")
    }), interrupt = function(e) "interrupted"))
  })
  fault_wait_line(session, "go")
  wait_until(is_resting(session$process$get_pid()))
  tools::pskill(session$process$get_pid(), tools::SIGINT)
  expect_identical(fault_value(session)$value, "interrupted")
})

# The fork server of a session with this library never begins.
endless_server <- function(env = parent.frame()) {
  fault_compile(c(
    "#include <string.h>",
    "#include <unistd.h>",
    "__attribute__((constructor)) static void begin(int n, char **args) {",
    "  for (int i = 0; i < n; i++) {",
    "    while (strstr(args[i], \"fork_server_main\")) pause();",
    "  }",
    "}"
  ), "endless", preload = TRUE, env = env)
}

test_that("one Ctrl-C ends each wait for others, and the session can go on", {
  skip_unless_linux()
  session <- local_session(function() {
    control <- par_control(workers = 1L, progress = FALSE)
    cl <- parallel::makeCluster(1L)
    sleep <- function(i) Sys.sleep(300)
    name <- sprintf("/regatta-wait-%d", Sys.getpid())
    sem <- sem_open(name, create = TRUE)
    sem_unlink(name)
    waits <- list(
      map = function() par_lapply(1:2, sleep, .control = control),
      stream = function() par_next(par_stream(1:2, sleep, .control = control)),
      value_in_time = function() par_value(par_call(sleep(1), .control = control), timeout = 200),
      fill = function() shm_fill(4, sleep, .control = control),
      node = function() par_lapply(1:2, sleep, .on = cl, .control = control),
      node_program = function() par_lapply(1:2, function(i) system("sleep 300"), .on = cl, .control = control),
      node_call = function() par_value(par_call(sleep(1), .on = cl, .control = control)),
      semaphore = function() sem_wait(sem),
      server = function() cluster_local(1L)
    )
    heard <- suspendInterrupts(lapply(stats::setNames(nm = names(waits)), function(name) {
      tryCatch(
        allowInterrupts({
          cat("go", name, "\n")
          waits[[name]]()
        }),
        interrupt = function(e) "interrupted", error = function(e) conditionMessage(e)
      )
    }))
    after <- par_lapply(1:3, identity, .control = control)
    try(parallel::stopCluster(cl), silent = TRUE)
    list(names = names(waits), heard = heard, after = after)
  }, env = c(LD_PRELOAD = endless_server()))
  pid <- session$process$get_pid()
  waits <- c("map", "stream", "value_in_time", "fill", "node", "node_program", "node_call", "semaphore", "server")
  for (name in waits) {
    fault_wait_line(session, sprintf("^go %s ", name))
    wait_until(is_resting(pid))
    tools::pskill(pid, tools::SIGINT)
  }
  got <- fault_value(session)$value
  expect_identical(got$heard, stats::setNames(as.list(rep("interrupted", 9L)), got$names))
  expect_identical(got$after, list(1L, 2L, 3L))
})

test_that("an element is interrupted though the session ignores SIGINT, as a job in the background of a script", {
  skip_unless_linux()
  got <- fault_run(function(patient_limits) {
    patient_limits()
    ended <- tempfile()
    endless <- function(i, ended) {
      on.exit(cat(i, "\n", file = ended, append = TRUE))
      repeat sqrt(i)
    }
    environment(endless) <- globalenv()
    control <- par_control(
      workers = 1L, progress = FALSE, errors = "collect", dump = "no", timeout = 0.5, warnings = "drop"
    )
    cl <- parallel::makeCluster(1L)
    before <- parallel::clusterCall(cl, Sys.getpid)
    for (on in list(NULL, cl)) suppressWarnings(par_lapply(1:2, endless, ended, .on = on, .control = control))
    after <- parallel::clusterCall(cl, Sys.getpid)
    parallel::stopCluster(cl)
    list(ended = scan(ended, 0L, quiet = TRUE), same_node = identical(before, after))
  }, list(patient_limits), wrap = c("sh", "-c", "trap '' INT; exec \"$@\"", "sh"))$value
  expect_identical(got, list(ended = c(1L, 2L, 1L, 2L), same_node = TRUE))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
