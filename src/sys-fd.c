#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/epoll.h>
#endif
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int set_flag(int fd, int get, int set, int flag) {
  int flags = fcntl(fd, get);
  return flags < 0 ? -1 : fcntl(fd, set, flags | flag);
}

rg_fd_identity rg_fd_identify(int fd) {
  struct stat status;
  if (fd < 0 || fstat(fd, &status) < 0) return (rg_fd_identity){0, 0};
  return (rg_fd_identity){(uint64_t)status.st_dev, (uint64_t)status.st_ino};
}

int rg_fd_is(int fd, rg_fd_identity identity) {
  rg_fd_identity now = rg_fd_identify(fd);
  return identity.inode != 0 && now.device == identity.device && now.inode == identity.inode;
}

int rg_fd_lift(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int lifted = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int saved = errno;
  close(fd);
  errno = saved;
  return lifted;
}

static int open_pipe(int fd[2]) {
#ifdef __linux__
  return pipe2(fd, O_CLOEXEC);
#else
  if (pipe(fd) < 0) return -1;
  for (int end = 0; end < 2; end++) set_flag(fd[end], F_GETFD, F_SETFD, FD_CLOEXEC);
  return 0;
#endif
}

int rg_fd_pipe(int fd[2], int nonblock) {
  if (open_pipe(fd) < 0) return -1;
  for (int end = 0; end < 2; end++) {
    int wanted = nonblock & (end == 0 ? RG_FD_READ_END : RG_FD_WRITE_END);
    if ((fd[end] = rg_fd_lift(fd[end])) < 0 ||
        (wanted && set_flag(fd[end], F_GETFL, F_SETFL, O_NONBLOCK) < 0)) {
      int saved = errno;
      rg_fd_close(&fd[0]);
      rg_fd_close(&fd[1]);
      errno = saved;
      return -1;
    }
  }
  return 0;
}

#ifdef MFD_ALLOW_SEALING
static int seal_bits(int seals) {
  int bits = 0;
  if (seals & RG_FD_SEAL_SIZE) bits |= F_SEAL_SHRINK | F_SEAL_GROW;
  if (seals & RG_FD_SEAL_WRITE) bits |= F_SEAL_WRITE;
  return bits;
}
#endif

int rg_fd_seal(int fd, int seals) {
#ifdef MFD_ALLOW_SEALING
  return fcntl(fd, F_ADD_SEALS, seal_bits(seals)) < 0 ? -1 : 0;
#else
  (void)fd, (void)seals;
  return 0;
#endif
}

int rg_fd_is_sealed(int fd, int seals) {
#ifdef MFD_ALLOW_SEALING
  int now = fcntl(fd, F_GET_SEALS);
  return now >= 0 && (now & seal_bits(seals)) == seal_bits(seals);
#else
  (void)fd, (void)seals;
  return 1;
#endif
}

int rg_fd_memory(const char *label) {
#ifdef MFD_ALLOW_SEALING
  return rg_fd_lift(memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
#else
  /* No memfd (macOS): a POSIX object whose name is removed before anyone can use it. */
  char name[32];
  for (int attempt = 0; attempt < 64; attempt++) {
    snprintf(name, sizeof name, "/rg%d.%d", (int)getpid(), attempt);
    int fd = rg_fd_lift(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    if (fd >= 0) {
      shm_unlink(name);
      set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC);
      return fd;
    }
    if (errno != EEXIST) return -1;
  }
  (void)label;
  return -1;
#endif
}

/* A signal that a call of the system sends to its own thread when it fails is kept from being
   delivered: R has handlers that end what runs, or the signal ends the process. */
typedef struct {
  int number, was_pending;
  sigset_t before;
} quiet;

static quiet quiet_begin(int number) {
  quiet q = {.number = number};
  sigset_t set;
  sigemptyset(&set);
  sigpending(&set);
  q.was_pending = sigismember(&set, number) == 1;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, &q.before);
  return q;
}

/* errno stays as it is. */
static void quiet_end(const quiet *q) {
  int saved = errno;
  sigset_t set;
  sigemptyset(&set);
  sigpending(&set);
  if (!q->was_pending && sigismember(&set, q->number) == 1) {
    int taken;
    sigemptyset(&set);
    sigaddset(&set, q->number);
    sigwait(&set, &taken);
  }
  pthread_sigmask(SIG_SETMASK, &q->before, NULL);
  errno = saved;
}

int rg_fd_wake(int fd) {
  const quiet q = quiet_begin(SIGPIPE);
  ssize_t n = write(fd, "", 1);
  quiet_end(&q);
  return n == 1 ? 0 : -1;
}

/* Linux moves at most 0x7ffff000 bytes in one call. */
static const size_t most = (size_t)1 << 30;

static int pwrite_all(int fd, const void *data, size_t size, int64_t offset) {
  const char *at = data;
  while (size > 0) {
    ssize_t n = pwrite(fd, at, size < most ? size : most, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) {
      errno = ENOSPC;
      return -1;
    }
    at += n;
    offset += n;
    size -= (size_t)n;
  }
  return 0;
}

int rg_fd_pwrite_all(int fd, const void *data, size_t size, int64_t offset) {
  const quiet q = quiet_begin(SIGXFSZ);
  int failed = pwrite_all(fd, data, size, offset);
  quiet_end(&q);
  return failed;
}

int rg_fd_pread_all(int fd, void *data, size_t size, int64_t offset) {
  char *at = data;
  while (size > 0) {
    ssize_t n = pread(fd, at, size < most ? size : most, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EBADMSG;
    if (n <= 0) return -1;
    at += n;
    offset += n;
    size -= (size_t)n;
  }
  return 0;
}

int rg_fd_resize(int fd, int64_t size) {
  const quiet q = quiet_begin(SIGXFSZ);
  int failed = ftruncate(fd, (off_t)size);
  quiet_end(&q);
  return failed;
}

int rg_fd_reserve(int fd, int64_t offset, int64_t size) {
#ifdef __linux__
  int failed;
  const quiet q = quiet_begin(SIGXFSZ);
  do {
    failed = fallocate(fd, 0, (off_t)offset, (off_t)size);
  } while (failed < 0 && errno == EINTR);
  quiet_end(&q);
  return failed < 0 && (errno == EOPNOTSUPP || errno == ENOSYS) ? 0 : failed;
#else
  (void)fd, (void)offset, (void)size;
  return 0;
#endif
}

int64_t rg_fd_size_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  return limit.rlim_cur < INT64_MAX ? (int64_t)limit.rlim_cur : INT64_MAX;
}

int rg_fd_punch(int fd, int64_t offset, int64_t size) {
#ifdef FALLOC_FL_PUNCH_HOLE
  return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
#else
  (void)fd, (void)offset, (void)size;
  return 0;
#endif
}

int rg_fd_watch(const int *fds, int count) {
#ifdef __linux__
  int watch = rg_fd_lift(epoll_create1(EPOLL_CLOEXEC));
  for (int i = 0; i < count && watch >= 0; i++) {
    struct epoll_event event = {.events = EPOLLIN};
    if (fds[i] >= 0 && epoll_ctl(watch, EPOLL_CTL_ADD, fds[i], &event) < 0) rg_fd_close(&watch);
  }
  return watch;
#else
  (void)fds, (void)count;
  errno = ENOSYS;
  return -1;
#endif
}

int rg_fd_watch_ready(int watch) {
#ifdef __linux__
  /* It waits for nothing: no point of cancellation, which the library makes of it in a process with threads. */
  struct epoll_event event;
  return watch >= 0 && syscall(SYS_epoll_pwait, watch, &event, 1, 0, NULL, 0) == 0 ? 0 : 1;
#else
  (void)watch;
  return 1;
#endif
}

void rg_fd_close(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}
