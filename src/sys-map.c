#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys-fd.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* To count all mappings takes about 1 us for each: after so many questions that costs little. */
enum { LOOK_EVERY = 4096 };

/* A forked process has those of its parent, and their number. */
static int64_t ours, others, questions;

/* Less is not had for want of mappings. */
enum { RECLAIM_FROM = 1 << 20 };

static void (*reclaim)(void);
static int64_t in_vain = -1; /* `ours` after it was called last and did not help: not again for the same */

void rg_map_set_reclaim(void (*by)(void)) { reclaim = by; }

static void *map(int fd, int64_t offset, int64_t size, rg_map_kind kind) {
  static const int flags[] = {MAP_PRIVATE | MAP_NORESERVE, MAP_SHARED, MAP_PRIVATE | MAP_ANONYMOUS};
  return mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, flags[kind], kind == RG_MAP_FRESH ? -1 : fd, (off_t)offset);
}

void *rg_map_new(int fd, int64_t offset, int64_t size, rg_map_kind kind) {
  void *address = map(fd, offset, size, kind);
  if (address == MAP_FAILED && errno == ENOMEM && reclaim && size >= RECLAIM_FROM && ours != in_vain) {
    reclaim();
    address = map(fd, offset, size, kind);
    in_vain = address == MAP_FAILED ? ours : -1;
  }
  if (address == MAP_FAILED) return NULL;
  ours++;
  return address;
}

void rg_map_drop(void *address, int64_t size) {
  if (munmap(address, (size_t)size) == 0) ours--;
}

static int64_t read_limit(void) {
  char text[32] = "";
  int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  rg_fd_close(&fd);
  int64_t limit = n > 0 ? strtoll(text, NULL, 10) : 0;
  return limit > 0 ? limit : INT64_MAX;
}

static int64_t limit(void) {
  static int64_t known = 0;
  if (known == 0) known = read_limit();
  return known;
}

static int64_t most(void) { return limit() < INT64_MAX ? limit() - limit() / 4 : INT64_MAX; }

/* Lines of a file that must be read without malloc(); -1 if it cannot be read. */
static int64_t count_all(void) {
  char text[16384];
  ssize_t n = -1;
  int64_t lines = 0;
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  while ((n = read(fd, text, sizeof text)) > 0) {
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + n - at))); at++) lines++;
  }
  rg_fd_close(&fd);
  return n == 0 ? lines : -1;
}

void rg_map_look(void) {
  int64_t all = limit() < INT64_MAX ? count_all() : -1;
  others = all > ours ? all - ours : 0;
  questions = 1;
}

int rg_map_has_room(void) {
  if (questions++ % LOOK_EVERY == 0) rg_map_look();
  if (ours + others < most()) return 1;
  errno = ENOMEM;
  return 0;
}

rg_map_counts rg_map_count(void) { return (rg_map_counts){ours, count_all(), most(), limit()}; }
