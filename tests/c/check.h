#ifndef RG_TESTS_CHECK_H
#define RG_TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>

/* A test is a function that registers itself and calls CHECK(). A failed check is reported and
   counted; the test goes on, but says the same thing of one line only a few times. */

typedef struct check_test {
  const char *name;
  void (*run)(void);
  struct check_test *next;
} check_test;

void check_register(check_test *test);
void check_that(int holds, const char *file, int line, const char *what);

/* Says why a test does not run here. */
void check_skip(const char *reason);

/* How many times as long and as often: sanitizers make everything slow. */
extern int check_stride;

/* Numbers that are the same in every run: splitmix64. */
static inline uint64_t check_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static inline int64_t check_below(uint64_t *state, int64_t n) {
  return (int64_t)(check_random(state) % (uint64_t)n);
}

#define TEST(title)                                                              \
  static void test_##title(void);                                                \
  static check_test entry_##title = {#title, test_##title, NULL};                \
  __attribute__((constructor)) static void register_##title(void) {              \
    check_register(&entry_##title);                                              \
  }                                                                              \
  static void test_##title(void)

#define CHECK(condition) check_that((condition) ? 1 : 0, __FILE__, __LINE__, #condition)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CHECK_SANITIZED = 1 };
#else
enum { CHECK_SANITIZED = 0 };
#endif

#endif
