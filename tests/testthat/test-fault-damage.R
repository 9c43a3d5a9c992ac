detritus <- detritus_snapshot()

# Writes where it should not: over the ring of the one worker of a run, its counters included.
damage <- compiled_once(function(env) {
  fault_compile(c(
    find_shared,
    "void damage(int *found) {",
    "  rg_control_shared *shared = find_control(1);",
    "  *found = shared != NULL;",
    "  if (shared) memset(&slot_of(shared, 0)->ring, 0xff, sizeof(rg_ring));",
    "}"
  ), "damage", flags = source_headers(), env = env)
})

test_that("a worker whose code has damaged its ring is given up, and the others' values arrive", {
  skip_unless_linux()
  library <- damage()
  got <- fault_run(function(library) {
    dyn.load(library)
    values <- suppressWarnings(par_lapply(1:6, function(i) {
      if (i == 3L && .C("damage", 0L)[[1L]] == 0L) stop("there is no control block")
      i
    }, .control = par_control(
      workers = 1L, progress = FALSE, errors = "collect", dump = "no", batch = 1L
    )))
    list(values = values[-3L], class = class(values[[3L]]), text = conditionMessage(values[[3L]]))
  }, list(library = library), timeout = 60)$value
  expect_true("regatta_error_death" %in% got$class)
  expect_match(got$text, "shared memory was damaged")
  expect_identical(got$values, list(1L, 2L, 4L, 5L, 6L))
})

# Writes over the bytes of a text where it stands in the shared memory of the run, and over the end of the
# file of results.
scribble <- function(frame = parent.frame()) {
  fault_compile(c(
    "#define _GNU_SOURCE",
    find_shared,
    "#include \"arena.h\"",
    "void write_over(char **text, int *found) {",
    "  size_t size;",
    "  for (char *at, *from = NULL; (from = next_shared(RG_CONTROL_LABEL, from, &size));) {",
    "    if (!(at = memmem(from, size, text[0], strlen(text[0])))) continue;",
    "    memset(at, '#', strlen(text[0]));",
    "    *found += 1;",
    "  }",
    "}",
    "void write_over_end(int *found) {",
    "  size_t size;",
    "  for (rg_arena_shared *arena = NULL; (arena = next_shared(\"regatta-spans\", arena, &size)); *found += 1) {",
    "    arena->end = 0;",
    "  }",
    "}"
  ), "scribble", flags = source_headers(), env = frame)
}

test_that("a value that was overwritten before the session has read it is an error of its element", {
  skip_unless_linux()
  library <- scribble()
  got <- fault_run(function(library) {
    dyn.load(library)
    is_stopped <- function(pid) {
      grepl(") T ", readLines(file.path("/proc", pid, "stat"), 1L), fixed = TRUE)
    }
    session <- Sys.getpid()
    values <- suppressWarnings(par_lapply(1:4, function(i) {
      if (i == 1L) {
        tools::pskill(session, 19L) # it reads nothing before the second element has written
        while (!is_stopped(session)) Sys.sleep(0.01)
        return(c("value", "that ", "overwrite me"))
      }
      if (i == 2L) {
        found <- .C("write_over", "overwrite me", 0L)[[2L]]
        tools::pskill(session, 18L)
        return(found)
      }
      Sys.getpid()
    }, .control = par_control(
      workers = 1L, progress = FALSE, errors = "collect", dump = "no"
    )))
    list(
      values = values[2:4], class = class(values[[1L]]), text = conditionMessage(values[[1L]]),
      parent = class(values[[1L]]$parent)
    )
  }, list(library = library), timeout = 60)$value
  expect_identical(got$values[[1L]], 1L)
  expect_identical(got$values[[2L]], got$values[[3L]])
  expect_identical(
    setdiff(got$class, "regatta_failed")[1:2], c("regatta_error_damage", "regatta_error_element")
  )
  expect_true("regatta_error_damage" %in% got$parent)
  expect_match(got$text, "element 1 .*was overwritten in shared memory")
})

test_that("an end of the results' file that was overwritten costs no other result", {
  skip_unless_linux()
  library <- scribble()
  got <- fault_run(function(library) {
    dyn.load(library)
    control <- par_control(workers = 1L, progress = FALSE, errors = "collect", dump = "no")
    values <- suppressWarnings(par_lapply(1:4, function(i) {
      if (i == 2L) .C("write_over_end", 0L)[[1L]] else rep(as.double(i), 1e5)
    }, .control = control))
    after <- par_lapply(1:2, function(i) rep(as.double(i), 1e5), .control = control)
    list(
      first = unique(values[[1L]]), found = values[[2L]], classes = lapply(values[3:4], class),
      parent = class(values[[3L]]$parent), after = lapply(after, unique)
    )
  }, list(library = library), timeout = 60)$value
  expect_identical(got$first, 1)
  expect_identical(got$found, 1L)
  expect_true("regatta_error_element" %in% got$classes[[1L]])
  expect_true("regatta_error_damage" %in% got$parent)
  expect_identical(got$after, list(1, 2))
})

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
