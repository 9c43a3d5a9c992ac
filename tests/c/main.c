#include <stdlib.h>
#include <string.h>

#include "check.h"

/* ./tests [NAME]: all tests, or those whose name has NAME in it. */

enum { SAID_MAX = 3 };

static check_test *first, **last = &first;
static long passed, failed;
static int skipped, said, said_line;
int check_stride = CHECK_SANITIZED ? 17 : 1;

void check_register(check_test *test) {
  *last = test;
  last = &test->next;
}

void check_that(int holds, const char *file, int line, const char *what) {
  if (holds) {
    passed++;
    return;
  }
  failed++;
  said = line == said_line ? said + 1 : 1;
  said_line = line;
  if (said <= SAID_MAX) printf("FAILED %s:%d: %s\n", file, line, what);
}

void check_skip(const char *reason) {
  skipped++;
  printf("skip   (%s) ", reason);
}

int main(int argc, char **argv) {
  int tests = 0;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  for (check_test *test = first; test; test = test->next) {
    if (argc > 1 && !strstr(test->name, argv[1])) continue;
    long before = failed;
    test->run();
    printf("%s %s\n", failed == before ? "ok    " : "FAILED", test->name);
    tests++;
  }
  printf("%d tests, %ld checks passed, %ld failed, %d skipped\n", tests, passed, failed, skipped);
  return failed > 0 || passed == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
