detritus <- detritus_snapshot()

# Writes where it should not: over the ring of the one worker of a run, its counters included. The
# control block is the shared mapping without a name that begins with the number of workers and ends
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
    "    if (strcmp(rights, \"rw-s\") != 0 || !strstr(line, \"/dev/zero\")) continue;",
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

test_that("nothing is left behind", {
  expect_no_detritus(detritus)
})
