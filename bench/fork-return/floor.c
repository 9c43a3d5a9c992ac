/* The least that two children's results can cost: fork, write, map, and nothing else.
 *
 *   floor fresh|warm BYTES        prints the seconds
 *
 * Each child writes BYTES, which lie in its memory already, to a file in memory of its own;
 * the parent waits for both and maps the files. "warm" times a second pass over the same
 * files, whose pages are allocated then.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN = 2 };

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void write_all(int fd, const char *data, size_t size) {
  off_t at = 0;
  while (size > 0) {
    ssize_t n = pwrite(fd, data, size, at);
    if (n <= 0) _exit(1);
    data += n;
    at += n;
    size -= (size_t)n;
  }
}

static void run_children(const int *files, const char *data, size_t size) {
  pid_t children[CHILDREN];
  for (int c = 0; c < CHILDREN; c++) {
    children[c] = fork();
    if (children[c] < 0) fail("fork");
    if (children[c] == 0) {
      write_all(files[c], data, size);
      _exit(0);
    }
  }
  for (int c = 0; c < CHILDREN; c++) {
    int status;
    if (waitpid(children[c], &status, 0) < 0) fail("waitpid");
    if (status != 0) {
      fprintf(stderr, "a child could not write %zu bytes\n", size);
      exit(1);
    }
  }
}

static double one_pass(const int *files, const char *data, size_t size) {
  void *maps[CHILDREN];
  double start = seconds_now();
  run_children(files, data, size);
  for (int c = 0; c < CHILDREN; c++) {
    maps[c] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, files[c], 0);
    if (maps[c] == MAP_FAILED) fail("mmap");
  }
  double seconds = seconds_now() - start;
  for (int c = 0; c < CHILDREN; c++) munmap(maps[c], size);
  return seconds;
}

int main(int count, char **words) {
  if (count != 3) {
    fprintf(stderr, "usage: floor fresh|warm BYTES\n");
    return 2;
  }
  size_t size = (size_t)strtod(words[2], NULL);
  char *data = malloc(size);
  if (!data) fail("malloc");
  memset(data, 1, size);
  int files[CHILDREN];
  for (int c = 0; c < CHILDREN; c++) {
    files[c] = memfd_create("floor", MFD_CLOEXEC);
    if (files[c] < 0) fail("memfd_create");
  }
  double seconds = one_pass(files, data, size);
  if (strcmp(words[1], "warm") == 0) seconds = one_pass(files, data, size);
  printf("%.6f\n", seconds);
  return 0;
}
