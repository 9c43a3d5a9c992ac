detritus <- detritus_snapshot()

# Writes where it should not: over the ring of the one worker of a run, its counters included. The
# control block is the shared mapping of that name that begins with the number of workers and ends
# with the ring; what may go with it is the end of the text before that.
damage <- compiled_once(function(env) {
  fault_compile(c(
    "#include <stdint.h>",
    "#include <stdio.h>",
    "#include <stdlib.h>",
    "#include <string.h>",
    "void damage(int *found) {",
    "  char line[512];",
    "  FILE *maps = fopen(\"/proc/self/maps\", \"r\");",
    "  *found = 0;",
    "  while (fgets(line, sizeof line, maps)) {",
    "    unsigned long from, to;",
    "    char rights[8];",
    "    if (sscanf(line, \"%lx-%lx %7s\", &from, &to, rights) != 3) continue;",
    "    if (strcmp(rights, \"rw-s\") != 0 || !strstr(line, \"regatta-run\")) continue;",
    "    if (to - from <= (1 << 20) || *(int32_t *)from != 1) continue;",
    "    memset((char *)to - (1 << 20) - 4096 - 128, 0xff, (1 << 20) + 4096 + 128);",
    "    *found += 1;",
    "  }",
    "  fclose(maps);",
    "}"
  ), "damage", env = env)
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
# file of results, which is the first word of what the processes share about that.
scribble <- function(frame = parent.frame()) {
  fault_compile(c(
    "#define _GNU_SOURCE",
    "#include <stdint.h>",
    "#include <stdio.h>",
    "#include <string.h>",
    "static void each(const char *name, const char *text, int *found) {",
    "  char line[512];",
    "  FILE *maps = fopen(\"/proc/self/maps\", \"r\");",
    "  while (fgets(line, sizeof line, maps)) {",
    "    unsigned long from, to;",
    "    char rights[8], *at;",
    "    if (sscanf(line, \"%lx-%lx %7s\", &from, &to, rights) != 3) continue;",
    "    if (strcmp(rights, \"rw-s\") != 0 || !strstr(line, name)) continue;",
    "    if (!text) {",
    "      *(int64_t *)from = 0;",
    "      *found += 1;",
    "    } else if ((at = memmem((char *)from, to - from, text, strlen(text)))) {",
    "      memset(at, '#', strlen(text));",
    "      *found += 1;",
    "    }",
    "  }",
    "  fclose(maps);",
    "}",
    "void write_over(char **text, int *found) { each(\"regatta-run\", text[0], found); }",
    "void write_over_end(int *found) { each(\"regatta-spans\", NULL, found); }"
  ), "scribble", env = frame)
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
