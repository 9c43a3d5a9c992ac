#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "region.h"
#include "sys-fd.h"

/* A region is found by its key and by nothing else, holds what was written, and lives as long as anybody has it.
   Other processes are forked before the region is made, so that they inherit nothing of it: a key comes to them by
   a pipe, as it does with a handle. */

static int64_t page(void) { return sysconf(_SC_PAGESIZE); }

typedef struct {
  rg_region_key key;
  int writable;
} question;

typedef struct {
  rg_region_status status;
  int64_t size;
  unsigned char first, last;
} answer;

/* A process that attaches to what it is told of, looks, writes a 7 at the end if it may, and drops it, until it hears
   nothing any more. */
typedef struct {
  pid_t pid;
  int ask, hear;
} visitor;

static void visit(int asked, int told) {
  question q;
  while (read(asked, &q, sizeof q) == sizeof q) {
    rg_region *region = NULL;
    answer a = {.status = rg_region_attach(&q.key, q.writable, &region)};
    if (a.status == RG_REGION_OK) {
      a.size = region->key.size;
      char *data = q.writable ? region->data : rg_region_map(region, 0, a.size);
      if (!data) _exit(2);
      a.first = (unsigned char)data[0];
      a.last = (unsigned char)data[a.size - 1];
      if (q.writable) data[a.size - 1] = 7;
      if (!q.writable) munmap(data, (size_t)a.size);
      rg_region_close(region);
    }
    if (write(told, &a, sizeof a) != sizeof a) _exit(3);
  }
  _exit(0);
}

static visitor invite(void) {
  int ask[2], hear[2];
  CHECK(pipe(ask) == 0 && pipe(hear) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(ask[1]);
    close(hear[0]);
    visit(ask[0], hear[1]);
  }
  close(ask[0]);
  close(hear[1]);
  return (visitor){pid, ask[1], hear[0]};
}

static answer ask(const visitor *v, rg_region_key key, int writable) {
  question q;
  memset(&q, 0, sizeof q);
  q.key = key;
  q.writable = writable;
  answer a = {.status = (rg_region_status)-1};
  CHECK(write(v->ask, &q, sizeof q) == sizeof q);
  CHECK(read(v->hear, &a, sizeof a) == sizeof a);
  return a;
}

static void part(const visitor *v) {
  int status;
  close(v->ask);
  close(v->hear);
  CHECK(waitpid(v->pid, &status, 0) == v->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static rg_region *array_of(int64_t size) {
  rg_region *region = NULL;
  int64_t available;
  CHECK(rg_region_create(size, INT64_MAX, &region, &available) == RG_REGION_OK);
  CHECK(rg_region_reserve(region, 0, size) == RG_REGION_OK);
  return region;
}

/* Each page of it begins with its number, from 1. */
static rg_region *frozen_of(int pages) {
  rg_region *region = NULL;
  int64_t offset, available;
  CHECK(rg_region_begin(&region) == RG_REGION_OK);
  for (int k = 0; k < pages; k++) {
    unsigned char number = (unsigned char)(k + 1);
    CHECK(rg_region_extend(region, 1 + k, INT64_MAX, &offset, &available) == RG_REGION_OK);
    CHECK(offset == k * page());
    CHECK(rg_region_write(region, offset, &number, 1) == RG_REGION_OK);
  }
  CHECK(rg_region_freeze(region) == RG_REGION_OK);
  return region;
}

TEST(region_is_found_by_its_key_from_another_process) {
  visitor v = invite();
  rg_region *array = array_of(3 * page() + 5), *frozen = frozen_of(4);
  array->data[0] = 42;
  answer a = ask(&v, rg_region_key_of(array), 1);
  CHECK(a.status == RG_REGION_OK && a.first == 42 && a.last == 0 && a.size == 3 * page() + 5);
  CHECK(array->data[a.size - 1] == 7);
  CHECK(ask(&v, rg_region_key_of(array), 1).last == 7);
  a = ask(&v, rg_region_key_of(frozen), 0);
  CHECK(a.status == RG_REGION_OK && a.first == 1 && a.last == 0 && a.size == 4 * page());
  /* Not otherwise than it is. */
  CHECK(ask(&v, rg_region_key_of(array), 0).status == RG_REGION_FORGED);
  CHECK(ask(&v, rg_region_key_of(frozen), 1).status == RG_REGION_FORGED);
  rg_region_key key = rg_region_key_of(frozen);
  rg_region_close(frozen);
  CHECK(ask(&v, key, 0).status == RG_REGION_GONE);
  rg_region_close(array);
  part(&v);
}

/* Every bit of the key: what is found then is nothing, or refused, and never another region. */
TEST(region_is_not_found_by_a_forged_key) {
  visitor v = invite();
  rg_region *region = frozen_of(3), *neighbour = frozen_of(3);
  const rg_region_key key = rg_region_key_of(region);
  for (size_t bit = 0; bit < 8 * sizeof key; bit++) {
    rg_region_key forged = key;
    ((unsigned char *)&forged)[bit / 8] ^= (unsigned char)(1 << bit % 8);
    answer a = ask(&v, forged, 0);
    CHECK(a.status != RG_REGION_OK);
    if (forged.host != key.host) CHECK(a.status == RG_REGION_HOST);
    if (forged.tag != key.tag || forged.size != key.size) CHECK(a.status == RG_REGION_FORGED);
    if (forged.device != key.device || forged.inode != key.inode) CHECK(a.status == RG_REGION_GONE);
  }
  rg_region_key swapped = key;
  swapped.fd = neighbour->key.fd;
  CHECK(ask(&v, swapped, 0).status == RG_REGION_GONE);
  swapped.inode = neighbour->key.inode;
  CHECK(ask(&v, swapped, 0).status == RG_REGION_FORGED);
  CHECK(ask(&v, key, 0).status == RG_REGION_OK);
  rg_region_close(region);
  rg_region_close(neighbour);
  part(&v);
}

/* A file that looks like a region, but could be made shorter or written to, or whose header is not whole. */
TEST(region_is_not_what_only_looks_like_one) {
  visitor v = invite();
  rg_region *region = frozen_of(2);
  for (int flaw = 0; flaw < 6; flaw++) {
    struct stat status;
    rg_region_header header = {RG_REGION_MAGIC, 99, 2 * page(), 1};
    int fd = rg_fd_memory("regatta-test");
    if (flaw == 1) header.magic++;
    if (flaw == 2) header.size = 3 * page(); /* more than there is */
    if (flaw == 3) header.frozen = 0;
    CHECK(rg_fd_pwrite_all(fd, &header, flaw == 4 ? sizeof header - 8 : sizeof header, 0) == 0);
    CHECK(rg_fd_resize(fd, flaw == 4 ? (int64_t)sizeof header - 8 : 3 * page()) == 0);
    /* 0: as it should be, 5: anybody could write to it */
    CHECK(rg_fd_seal(fd, flaw == 5 ? RG_FD_SEAL_SIZE : RG_FD_SEAL_SIZE | RG_FD_SEAL_WRITE) == 0);
    CHECK(fstat(fd, &status) == 0);
    rg_region_key key = rg_region_key_of(region);
    key.fd = fd;
    key.device = (uint64_t)status.st_dev;
    key.inode = (uint64_t)status.st_ino;
    key.tag = 99;
    key.size = header.size;
    CHECK(ask(&v, key, 0).status == (flaw == 0 ? RG_REGION_OK : RG_REGION_FORGED));
    close(fd);
  }
  /* What must not even be opened. */
  int pipe_ends[2];
  struct stat status;
  CHECK(pipe(pipe_ends) == 0 && fstat(pipe_ends[0], &status) == 0);
  rg_region_key key = rg_region_key_of(region);
  key.fd = pipe_ends[0];
  key.device = (uint64_t)status.st_dev;
  key.inode = (uint64_t)status.st_ino;
  CHECK(ask(&v, key, 0).status == RG_REGION_GONE);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  rg_region_close(region);
  part(&v);
}

TEST(region_that_is_frozen_cannot_be_written_to) {
  rg_region *region = frozen_of(2);
  int64_t offset, available;
  CHECK(rg_region_write(region, 0, "x", 1) == RG_REGION_SYSTEM && errno == EPERM);
  CHECK(rg_region_extend(region, 1, INT64_MAX, &offset, &available) == RG_REGION_SYSTEM);
  CHECK(ftruncate(region->fd, 0) < 0);
  CHECK(mmap(NULL, (size_t)page(), PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0) == MAP_FAILED);
  /* What is written through a mapping is a copy of the writer's. */
  char *mine = rg_region_map(region, page(), page()), *other = rg_region_map(region, page(), page());
  CHECK(mine && other);
  mine[0] = 9;
  CHECK(other[0] == 2);
  munmap(mine, (size_t)page());
  munmap(other, (size_t)page());
  rg_region_close(region);
}

/* Whoever has it keeps it, also when its owner is killed in the midst of writing. */
TEST(region_outlives_its_owner) {
  int told[2];
  CHECK(pipe(told) == 0);
  pid_t owner = fork();
  if (owner == 0) {
    rg_region *array = array_of(64 * page());
    rg_region_key key = rg_region_key_of(array);
    if (write(told[1], &key, sizeof key) != sizeof key) _exit(1);
    for (int64_t i = 0;; i++) array->data[i % (64 * page())]++;
  }
  rg_region_key key;
  rg_region *region = NULL, *late = NULL, *same = NULL;
  int status;
  CHECK(read(told[0], &key, sizeof key) == sizeof key);
  CHECK(rg_region_attach(&key, 1, &region) == RG_REGION_OK);
  while (((volatile char *)region->data)[64 * page() - 1] == 0) usleep(100);
  CHECK(kill(owner, SIGKILL) == 0 && waitpid(owner, &status, 0) == owner);
  CHECK(region->data[0] != 0);
  region->data[0] = 1;
  /* Nobody finds it by the key of the dead any more, who does not have it. */
  CHECK(rg_region_attach(&key, 1, &same) == RG_REGION_OK && same == region && region->references == 2);
  CHECK(rg_region_attach(&key, 0, &same) == RG_REGION_FORGED);
  rg_region_key mine = rg_region_key_of(region);
  CHECK(mine.pid == getpid());
  rg_region_close(region);
  rg_region_close(region);
  CHECK(rg_region_attach(&key, 1, &late) == RG_REGION_GONE);
  close(told[0]);
  close(told[1]);
}

/* A list of all that there are, by their addresses and numbers, whatever comes and goes. */
TEST(region_list_is_right_in_any_order) {
  enum { MOST = 24 };
  rg_region *have[MOST] = {NULL};
  int64_t sizes[MOST] = {0}, numbers[MOST] = {0};
  uint64_t seed = 5;
  for (int i = 0; i < 2000 / check_stride; i++) {
    int k = (int)check_below(&seed, MOST);
    if (!have[k]) {
      sizes[k] = 1 + check_below(&seed, 3 * page());
      have[k] = array_of(sizes[k]);
      CHECK(have[k]->number == rg_region_last() && have[k]->number > numbers[k]);
      numbers[k] = have[k]->number;
      have[k]->data[sizes[k] - 1] = (char)k;
    } else {
      const char *data = have[k]->data;
      int64_t at = check_below(&seed, sizes[k]);
      CHECK(rg_region_at(data + at, sizes[k] - at) == have[k]);
      CHECK(rg_region_at(data + at, sizes[k] - at + 1) == NULL);
      CHECK(data[sizes[k] - 1] == (char)k);
      rg_region_close(have[k]);
      have[k] = NULL;
    }
    int count = 0, there = 0;
    int64_t before = INT64_MAX;
    for (const rg_region *r = rg_region_first(); r; r = r->next, count++) {
      CHECK(r->number < before);
      before = r->number;
    }
    for (int j = 0; j < MOST; j++) there += have[j] != NULL;
    CHECK(count == there);
  }
  for (int k = 0; k < MOST; k++) {
    if (have[k]) rg_region_close(have[k]);
  }
  CHECK(rg_region_first() == NULL);
}

TEST(region_counts_for_the_limit_until_it_is_closed) {
  rg_region *one = NULL, *two = NULL;
  int64_t available, offset;
  CHECK(rg_region_create(1000, 999, &one, &available) == RG_REGION_FULL && available == 999);
  CHECK(rg_region_create(600, 1000, &one, &available) == RG_REGION_OK);
  CHECK(rg_region_create(600, 1000, &two, &available) == RG_REGION_FULL && available == 400);
  rg_region_close(one);
  CHECK(rg_region_create(600, 1000, &one, &available) == RG_REGION_OK);
  CHECK(rg_region_begin(&two) == RG_REGION_OK);
  CHECK(rg_region_extend(two, 1, 600 + page() - 1, &offset, &available) == RG_REGION_FULL);
  CHECK(rg_region_extend(two, 1, 600 + page(), &offset, &available) == RG_REGION_OK);
  rg_region_close(two);
  rg_region_close(one);
}

/* Other code has closed the descriptor, and a file of its own has the number since. */
TEST(region_does_nothing_to_a_file_that_has_its_number) {
  rg_region *region = NULL;
  int64_t offset, available;
  CHECK(rg_region_begin(&region) == RG_REGION_OK);
  CHECK(rg_region_extend(region, 10, INT64_MAX, &offset, &available) == RG_REGION_OK);
  int fd = region->fd, file = rg_fd_memory("regatta-test");
  struct stat status;
  CHECK(dup2(file, fd) == fd);
  CHECK(rg_region_write(region, 0, "x", 1) == RG_REGION_SYSTEM && errno == EBADF);
  CHECK(rg_region_extend(region, 10, INT64_MAX, &offset, &available) == RG_REGION_SYSTEM && errno == EBADF);
  CHECK(rg_region_freeze(region) == RG_REGION_SYSTEM);
  CHECK(rg_region_map(region, 0, page()) == NULL);
  rg_region_close(region);
  CHECK(fstat(fd, &status) == 0 && status.st_size == 0);
  close(fd);
  close(file);
}
