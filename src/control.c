#include "control.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-layout.h"

/* The lock is the system's, and as large as that makes it: 40 bytes on x86-64. */
#define LOCK sizeof(pthread_mutex_t)
RG_LAYOUT_SIZE(rg_control_shared, 16 + LOCK + 104);
RG_LAYOUT(rg_control_shared, active, 0, 4);
RG_LAYOUT(rg_control_shared, rung, 4, 4);
RG_LAYOUT(rg_control_shared, parent_asleep, 8, 4);
RG_LAYOUT(rg_control_shared, over, 12, 4);
RG_LAYOUT(rg_control_shared, lock, 16, LOCK);
RG_LAYOUT(rg_control_shared, journal, 16 + LOCK, 24);
RG_LAYOUT(rg_control_shared, head, 16 + LOCK + 24, 8);
RG_LAYOUT(rg_control_shared, tail, 16 + LOCK + 32, 8);
RG_LAYOUT(rg_control_shared, layout, 16 + LOCK + 40, 8);
RG_LAYOUT(rg_control_shared, elements, 16 + LOCK + 48, 8);
RG_LAYOUT(rg_control_shared, since, 16 + LOCK + 56, 8);
RG_LAYOUT(rg_control_shared, workers, 16 + LOCK + 64, 4);
RG_LAYOUT(rg_control_shared, owner, 16 + LOCK + 68, 4);
RG_LAYOUT(rg_control_shared, verb, 16 + LOCK + 72, 32);
#undef LOCK

RG_LAYOUT_SIZE(rg_journal, 24);
RG_LAYOUT(rg_journal, armed, 0, 4);
RG_LAYOUT(rg_journal, worker, 4, 4);
RG_LAYOUT(rg_journal, claim_size, 8, 4);
RG_LAYOUT(rg_journal, claim_done, 12, 4);
RG_LAYOUT(rg_journal, head, 16, 8);

RG_LAYOUT_SIZE(rg_task, 40);
RG_LAYOUT(rg_task, start, 0, 8);
RG_LAYOUT(rg_task, end, 8, 8);
RG_LAYOUT(rg_task, bytes, 16, 8);
RG_LAYOUT(rg_task, worker, 24, 4);
RG_LAYOUT(rg_task, tries, 28, 4);
RG_LAYOUT(rg_task, cpu, 32, 4);
RG_LAYOUT(rg_task, peak, 36, 4);

RG_LAYOUT_SIZE(rg_slot, 1065152);
RG_LAYOUT(rg_slot, current, 0, 8);
RG_LAYOUT(rg_slot, begun, 8, 8);
RG_LAYOUT(rg_slot, ended, 16, 8);
RG_LAYOUT(rg_slot, started, 24, 8);
RG_LAYOUT(rg_slot, cpu_started, 32, 8);
RG_LAYOUT(rg_slot, peak, 40, 8);
RG_LAYOUT(rg_slot, cancel, 48, 8);
RG_LAYOUT(rg_slot, ended_by, 56, 4);
RG_LAYOUT(rg_slot, held, 60, 4);
RG_LAYOUT(rg_slot, waiting, 64, 4);
RG_LAYOUT(rg_slot, damaged, 68, 4);
RG_LAYOUT(rg_slot, left, 72, 4);
RG_LAYOUT(rg_slot, draining, 76, 8);
RG_LAYOUT(rg_slot, drained, 88, 16);
RG_LAYOUT(rg_slot, pid, 104, 4);
RG_LAYOUT(rg_slot, claim_size, 108, 4);
RG_LAYOUT(rg_slot, claim_done, 112, 4);
RG_LAYOUT(rg_slot, claim, 120, 8192);
RG_LAYOUT(rg_slot, crash, 8312, 8192);
RG_LAYOUT(rg_slot, ring, 16504, 1048592);

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static int init_lock(pthread_mutex_t *lock) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
#ifdef __linux__
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
#endif
  int failed = pthread_mutex_init(lock, &kind);
  pthread_mutexattr_destroy(&kind);
  return failed;
}

static void init_slot(rg_slot *slot) {
  atomic_init(&slot->current, -1);
  atomic_init(&slot->cancel, -1);
}

/* Sizes and offsets follow from the numbers alone. NULL if there is no memory for the view. */
static rg_control *new_view(int64_t elements, int workers, int64_t batch) {
  rg_control *control = calloc(1, sizeof *control);
  if (!control) return NULL;
  control->elements = elements;
  control->capacity = rg_control_capacity(elements);
  control->batch = batch;
  control->workers = workers;
  control->size = rg_control_slot_at(elements, workers);
  return control;
}

/* fd < 0: memory that only forks of this process can get. Untouched pages cost nothing: the mapping
   is as large as the most that may be used. */
static int map_view(rg_control *control, int fd) {
  char *base = mmap(NULL, (size_t)control->size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
  if (base == MAP_FAILED) return -1;
  control->shared = (rg_control_shared *)base;
  control->tasks = (rg_task *)(base + rg_control_tasks_at());
  control->order = (int64_t *)(base + rg_control_order_at(control->elements));
  control->slots = (rg_slot *)(base + rg_control_slot_at(control->elements, 0));
  return 0;
}

/* No other process may make it shorter, or reading it would be a fault. */
static int memory_of_size(int64_t size) {
  int fd = rg_fd_memory(RG_CONTROL_LABEL);
  if (fd >= 0 && (rg_fd_resize(fd, size) < 0 || rg_fd_seal(fd, RG_FD_SEAL_SIZE) < 0)) {
    int saved = errno;
    rg_fd_close(&fd);
    errno = saved;
  }
  return fd;
}

rg_control *rg_control_create(int64_t elements, int workers, int64_t batch, int *fd) {
  rg_control *control = new_view(elements, workers, batch);
  if (!control) return NULL;
  int file = fd ? memory_of_size(control->size) : -1;
  int failed = (fd && file < 0) || map_view(control, file) < 0 ? errno : 0;
  if (!failed) {
    atomic_init(&control->shared->active, workers);
    failed = init_lock(&control->shared->lock);
  }
  if (failed) {
    rg_fd_close(&file);
    rg_control_close(control);
    errno = failed;
    return NULL;
  }
  for (int w = 0; w < workers; w++) init_slot(&control->slots[w]);
  if (fd) *fd = file;
  return control;
}

rg_control *rg_control_open(int fd, int64_t elements, int workers, int64_t batch) {
  struct stat status;
  rg_control *control = new_view(elements, workers, batch);
  if (!control) return NULL;
  int failed = fstat(fd, &status) < 0                        ? errno
               : status.st_size != (off_t)control->size ||
                       !rg_fd_is_sealed(fd, RG_FD_SEAL_SIZE) ? EINVAL
               : map_view(control, fd) < 0                   ? errno
                                                             : 0;
  if (!failed) return control;
  rg_control_close(control);
  errno = failed;
  return NULL;
}

/* Another version of this package that has changed what is read below has another number. */
static const int64_t RG_CONTROL_LAYOUT = ((int64_t)0x72677461 << 32) | (int64_t)sizeof(rg_slot);

void rg_control_tell(rg_control *control, const char *verb) {
  rg_control_shared *shared = control->shared;
  shared->elements = control->elements;
  shared->since = rg_clock_now();
  shared->workers = control->workers;
  shared->owner = (int32_t)getpid();
  strncpy(shared->verb, verb, RG_VERB_MAX - 1);
  atomic_store(&shared->layout, RG_CONTROL_LAYOUT);
}

/* More than any run has: what is computed from such numbers does not overflow. */
static const int64_t ELEMENTS_MAX = (int64_t)1 << 52, WORKERS_MAX = 1 << 20;

/* It is for terminals, and workers can write there. */
static void copy_verb(const char *from, char *to) {
  int i = 0;
  for (; i < RG_VERB_MAX - 1 && from[i]; i++) to[i] = (char)(from[i] >= ' ' && from[i] <= '~' ? from[i] : '?');
  to[i] = '\0';
}

static int read_ended(int fd, const rg_control_shared *shared, int64_t *sum) {
  *sum = 0;
  for (int w = 0; w < shared->workers; w++) {
    int64_t ended;
    const int64_t at = rg_control_slot_at(shared->elements, w) + (int64_t)offsetof(rg_slot, ended);
    if (rg_fd_pread_all(fd, &ended, sizeof ended, at) < 0) return -1;
    *sum += ended;
  }
  return 0;
}

int rg_control_read(int fd, rg_control_facts *facts) {
  rg_control_shared shared;
  if (rg_fd_pread_all(fd, &shared, sizeof shared, 0) < 0 || atomic_load(&shared.layout) != RG_CONTROL_LAYOUT ||
      shared.elements < 0 || shared.elements > ELEMENTS_MAX || shared.workers < 0 || shared.workers > WORKERS_MAX ||
      read_ended(fd, &shared, &facts->ended) < 0) {
    return -1;
  }
  facts->elements = shared.elements;
  facts->since = shared.since;
  facts->workers = shared.workers;
  facts->owner = shared.owner;
  copy_verb(shared.verb, facts->verb);
  return 0;
}

int rg_control_read_slot(int fd, const rg_control_facts *facts, int worker, rg_slot_facts *slot) {
  const int64_t at = rg_control_slot_at(facts->elements, worker);
#define READ(field) rg_fd_pread_all(fd, &slot->field, sizeof slot->field, at + (int64_t)offsetof(rg_slot, field))
  if (READ(pid) < 0 || READ(current) < 0 || READ(started) < 0 || READ(waiting) < 0) return -1;
#undef READ
  if (slot->current >= facts->elements) slot->current = -1;
  return 0;
}

int64_t rg_control_ended(const rg_control *control) {
  int64_t sum = 0;
  for (int w = 0; w < control->workers; w++) sum += atomic_load(&control->slots[w].ended);
  return sum;
}

void rg_control_close(rg_control *control) {
  if (!control) return;
  if (control->shared) munmap(control->shared, (size_t)control->size);
  free(control);
}

void rg_control_reset_slot(rg_slot *slot) {
  atomic_store(&slot->current, -1);
  atomic_store(&slot->begun, 0);
  atomic_store(&slot->peak, 0);
  atomic_store(&slot->cancel, -1);
  atomic_store(&slot->waiting, 0);
  atomic_store(&slot->ended_by, 0);
  atomic_store(&slot->damaged, 0);
  atomic_store(&slot->left, 0);
  for (int s = 0; s < RG_STREAMS; s++) {
    atomic_store(&slot->drained[s], 0);
    atomic_store(&slot->draining[s], 0);
  }
  atomic_store(&slot->ring.head, 0);
  atomic_store(&slot->ring.tail, 0);
  slot->crash[0] = '\0';
}
