#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys-fd.h"
#include "sys-layout.h"
#include "sys-map.h"
#include "sys-memory.h"
#include "sys-random.h"

RG_LAYOUT_SIZE(rg_region_key, 56);
RG_LAYOUT(rg_region_key, pid, 0, 8);
RG_LAYOUT(rg_region_key, fd, 8, 8);
RG_LAYOUT(rg_region_key, device, 16, 8);
RG_LAYOUT(rg_region_key, inode, 24, 8);
RG_LAYOUT(rg_region_key, tag, 32, 8);
RG_LAYOUT(rg_region_key, host, 40, 8);
RG_LAYOUT(rg_region_key, size, 48, 8);

RG_LAYOUT_SIZE(rg_region_header, 32);
RG_LAYOUT(rg_region_header, magic, 0, 8);
RG_LAYOUT(rg_region_header, tag, 8, 8);
RG_LAYOUT(rg_region_header, size, 16, 8);
RG_LAYOUT(rg_region_header, frozen, 24, 8);

static rg_region *regions;
static int64_t bytes;

static int64_t page_size(void) { return sysconf(_SC_PAGESIZE); }

/* Differs from machine to machine and from boot to boot. Containers of one machine share
   it; there the process number leads astray, and the header tells. */
static uint64_t host_tag(void) {
  static uint64_t tag = 0;
  if (tag != 0) return tag;
  char text[64] = "";
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  rg_fd_close(&fd);
  uint64_t hash = 14695981039346656037u; /* FNV-1a, 64 bits */
  for (ssize_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
  return tag = hash;
}

static void fill_key(rg_region *region, const struct stat *status, uint64_t tag, int64_t size) {
  region->key = (rg_region_key){.pid = getpid(),
                                .fd = region->fd,
                                .device = (uint64_t)status->st_dev,
                                .inode = (uint64_t)status->st_ino,
                                .tag = tag,
                                .host = host_tag(),
                                .size = size};
}

/* Of one that is written in place. */
static rg_region_status map_shared(rg_region *region, int64_t size) {
  if (rg_map_has_room()) region->data = rg_map_new(region->fd, page_size(), size, RG_MAP_SHARED);
  if (region->data) return RG_REGION_OK;
  return errno == ENOMEM ? RG_REGION_MAPS : RG_REGION_SYSTEM;
}

/* The region's descriptor; -1 if the number is not its own any more, so that the call of the system
   that it is for fails with EBADF. */
static int own_fd(const rg_region *region) {
  const rg_fd_identity identity = {region->key.device, region->key.inode};
  return rg_fd_is(region->fd, identity) ? region->fd : -1;
}

char *rg_region_map(const rg_region *region, int64_t offset, int64_t size) {
  return rg_map_new(own_fd(region), page_size() + offset, size, RG_MAP_PRIVATE);
}

static int64_t last_number;

int64_t rg_region_last(void) { return last_number; }

static void add_region(rg_region *region) {
  region->number = ++last_number;
  region->references = 1;
  region->next = regions;
  regions = region;
  bytes += region->key.size;
}

static void free_region(rg_region *region) {
  int saved = errno;
  if (region->data) rg_map_drop(region->data, region->key.size);
  /* Without a key nobody has had the time to close it. */
  if (region->key.inode == 0 || own_fd(region) >= 0) rg_fd_close(&region->fd);
  free(region);
  errno = saved;
}

/* For `size` more bytes. Reading the machine's memory costs some 75 us: below some size the
   reservation itself reports a shortage soon enough. */
static int64_t room_left(int64_t limit, int64_t size) {
  rg_memory memory;
  int64_t room = limit - bytes;
  int ask = size >= (int64_t)8 << 20;
  if (ask && rg_memory_read(&memory) == 0 && memory.available < room) room = memory.available;
  return room > 0 ? room : 0;
}

static rg_region_status status_of_errno(void) {
  return errno == ENOSPC || errno == ENOMEM || errno == EFBIG ? RG_REGION_FULL : RG_REGION_SYSTEM;
}

/* errno tells it from a file that may not be so large. */
static rg_region_status no_room(void) {
  errno = ENOMEM;
  return RG_REGION_FULL;
}

static int open_file(rg_region *region, const char *label) {
  struct stat status;
  region->fd = rg_fd_memory(label);
  if (region->fd < 0 || fstat(region->fd, &status) < 0) return -1;
  fill_key(region, &status, rg_random_tag(), 0);
  region->owner = getpid();
  return 0;
}

/* The size has been reached: from now on the header tells the truth. */
static int close_size(rg_region *region, int frozen) {
  rg_region_header header = {RG_REGION_MAGIC, region->key.tag, region->key.size, frozen};
  if (rg_fd_pwrite_all(own_fd(region), &header, sizeof header, 0) < 0 ||
      rg_fd_resize(own_fd(region), page_size() + region->key.size) < 0) {
    return -1;
  }
  return rg_fd_seal(own_fd(region), frozen ? RG_FD_SEAL_SIZE | RG_FD_SEAL_WRITE : RG_FD_SEAL_SIZE);
}

static rg_region *new_region(const char *label) {
  rg_region *region = calloc(1, sizeof *region);
  if (!region) return NULL;
  region->fd = -1;
  if (open_file(region, label) == 0) return region;
  free_region(region);
  return NULL;
}

rg_region_status rg_region_create(int64_t size, int64_t limit, rg_region **region, int64_t *available) {
  *available = room_left(limit, size);
  if (size > *available) return no_room();
  rg_region *fresh = new_region("regatta-array");
  if (!fresh) return RG_REGION_SYSTEM;
  fresh->writable = 1;
  fresh->key.size = size;
  int failed = rg_fd_reserve(fresh->fd, 0, page_size()) < 0 || close_size(fresh, 0) < 0;
  rg_region_status status = failed ? status_of_errno() : map_shared(fresh, size);
  if (status != RG_REGION_OK) {
    free_region(fresh);
    return status;
  }
  add_region(fresh);
  *region = fresh;
  return RG_REGION_OK;
}

rg_region_status rg_region_reserve(rg_region *region, int64_t offset, int64_t size) {
  int failed = rg_fd_reserve(own_fd(region), page_size() + offset, size) < 0;
  return failed ? status_of_errno() : RG_REGION_OK;
}

rg_region_status rg_region_write(rg_region *region, int64_t offset, const void *data, int64_t size) {
  int failed = rg_fd_pwrite_all(own_fd(region), data, (size_t)size, page_size() + offset) < 0;
  return failed ? status_of_errno() : RG_REGION_OK;
}

rg_region_status rg_region_begin(rg_region **region) {
  *region = new_region("regatta-shared");
  if (!*region) return RG_REGION_SYSTEM;
  add_region(*region);
  return RG_REGION_OK;
}

static int64_t whole_pages(int64_t size) {
  return (size + page_size() - 1) / page_size() * page_size();
}

rg_region_status rg_region_extend(rg_region *region, int64_t size, int64_t limit, int64_t *offset,
                                  int64_t *available) {
  *available = room_left(limit, size);
  if (whole_pages(size) > *available) return no_room();
  int64_t end = page_size() + region->key.size + whole_pages(size);
  if (rg_fd_resize(own_fd(region), end) < 0) return status_of_errno();
  *offset = region->key.size;
  region->key.size += whole_pages(size);
  bytes += whole_pages(size);
  return RG_REGION_OK;
}

rg_region_status rg_region_freeze(rg_region *region) {
  return close_size(region, 1) < 0 ? RG_REGION_SYSTEM : RG_REGION_OK;
}

static rg_region *find_region(const rg_region_key *key) {
  rg_region *region = regions;
  while (region && (region->key.device != key->device || region->key.inode != key->inode ||
                    region->key.tag != key->tag)) {
    region = region->next;
  }
  return region;
}

/* Opens what the key points to, if it is what it says. A descriptor of another kind (a
   terminal, a pipe) must not be opened at all, hence the look before. */
static rg_region_status open_key(const rg_region_key *key, int writable, rg_region *region) {
  char path[64];
  struct stat status;
  rg_region_header header;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)key->pid, (long long)key->fd);
  if (stat(path, &status) < 0) {
    return errno == ENOENT ? RG_REGION_GONE : RG_REGION_SYSTEM;
  }
  if (!S_ISREG(status.st_mode) || (uint64_t)status.st_dev != key->device ||
      (uint64_t)status.st_ino != key->inode) {
    return RG_REGION_GONE; /* the numbers are somebody else's by now */
  }
  region->fd = rg_fd_lift(open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (region->fd < 0) return errno == ENOENT ? RG_REGION_GONE : RG_REGION_SYSTEM;
  if (fstat(region->fd, &status) < 0) return RG_REGION_SYSTEM;
  int same = (uint64_t)status.st_dev == key->device && (uint64_t)status.st_ino == key->inode;
  if (!same || pread(region->fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
      header.magic != RG_REGION_MAGIC || header.tag != key->tag || header.size != key->size ||
      key->size <= 0 || status.st_size < page_size() + key->size ||
      !rg_fd_is_sealed(region->fd, header.frozen ? RG_FD_SEAL_SIZE | RG_FD_SEAL_WRITE
                                                 : RG_FD_SEAL_SIZE) ||
      (writable != 0) == (header.frozen != 0)) {
    return RG_REGION_FORGED;
  }
  region->writable = writable;
  fill_key(region, &status, key->tag, key->size);
  region->owner = (pid_t)key->pid;
  return writable ? map_shared(region, key->size) : RG_REGION_OK;
}

static int attach_known;

void rg_region_attach_known(int begin) {
  if (begin) rg_region_note_known(0);
  attach_known = begin;
}

rg_region_status rg_region_attach(const rg_region_key *key, int writable, rg_region **region) {
  rg_region *known = find_region(key);
  if (known && (known->key.size != key->size || known->writable != writable)) {
    return RG_REGION_FORGED;
  }
  if (known) {
    known->references++;
    known->known |= attach_known;
    *region = known;
    return RG_REGION_OK;
  }
  if (key->host != host_tag()) return RG_REGION_HOST;
  rg_region *fresh = calloc(1, sizeof *fresh);
  if (!fresh) return RG_REGION_SYSTEM;
  fresh->fd = -1;
  rg_region_status status = open_key(key, writable, fresh);
  if (status != RG_REGION_OK) {
    free_region(fresh);
    return status;
  }
  fresh->known = attach_known;
  add_region(fresh);
  *region = fresh;
  return RG_REGION_OK;
}

void rg_region_close(rg_region *region) {
  if (--region->references > 0) return;
  rg_region **link = &regions;
  while (*link && *link != region) link = &(*link)->next;
  if (*link) *link = region->next;
  bytes -= region->key.size;
  free_region(region);
}

rg_region_key rg_region_key_of(const rg_region *region) {
  rg_region_key key = region->key;
  key.pid = getpid(); /* a forked child has inherited the descriptor under the same number */
  return key;
}

rg_region *rg_region_at(const void *start, int64_t size) {
  const char *from = start;
  for (rg_region *region = regions; region; region = region->next) {
    if (!region->writable || from < region->data) continue;
    if (size <= region->key.size && from - region->data <= region->key.size - size) return region;
  }
  return NULL;
}

void rg_region_note_known(int near) {
  for (rg_region *region = regions; region; region = region->next) region->known = near;
}

const rg_region *rg_region_first(void) { return regions; }
