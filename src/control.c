#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys-fd.h"

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static int64_t power_of_two_from(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

static int64_t round_up(int64_t size) { return (size + 63) / 64 * 64; }

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
  control->capacity = power_of_two_from(elements > 0 ? elements : 1);
  control->batch = batch;
  control->workers = workers;
  control->size = round_up((int64_t)sizeof(rg_control_shared)) +
                  round_up(elements * (int64_t)sizeof(rg_task)) +
                  round_up(control->capacity * (int64_t)sizeof(int64_t)) +
                  workers * round_up((int64_t)sizeof(rg_slot));
  return control;
}

/* fd < 0: memory that only forks of this process can get. Untouched pages cost nothing: the mapping
   is as large as the most that may be used. */
static int map_view(rg_control *control, int fd) {
  char *base = mmap(NULL, (size_t)control->size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
  if (base == MAP_FAILED) return -1;
  int64_t tasks_at = round_up((int64_t)sizeof(rg_control_shared));
  int64_t order_at = tasks_at + round_up(control->elements * (int64_t)sizeof(rg_task));
  int64_t slots_at = order_at + round_up(control->capacity * (int64_t)sizeof(int64_t));
  control->shared = (rg_control_shared *)base;
  control->tasks = (rg_task *)(base + tasks_at);
  control->order = (int64_t *)(base + order_at);
  control->slots = (rg_slot *)(base + slots_at);
  return 0;
}

/* No other process may make it shorter, or reading it would be a fault. */
static int memory_of_size(int64_t size) {
  int fd = rg_fd_memory("regatta-run");
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
