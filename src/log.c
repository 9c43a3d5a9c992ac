#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "sys-fd.h"
#include "sys-layout.h"

RG_LAYOUT_SIZE(rg_log_header, 64);
RG_LAYOUT(rg_log_header, mark, 0, 8);
RG_LAYOUT(rg_log_header, offset, 8, 8);
RG_LAYOUT(rg_log_header, size, 16, 8);
RG_LAYOUT(rg_log_header, key, 24, 16);
RG_LAYOUT(rg_log_header, index, 40, 8);
RG_LAYOUT(rg_log_header, type, 48, 4);
RG_LAYOUT(rg_log_header, payload_sum, 52, 4);
RG_LAYOUT(rg_log_header, header_sum, 56, 4);
RG_LAYOUT(rg_log_header, unused, 60, 4);

struct rg_log {
  int fd, lock, may_write;
  dev_t device;
  ino_t inode; /* of the lock */
  pid_t owner;
  int64_t end; /* after the last whole record */
  rg_log *next;
};

/* The logs of this process that it writes to. A forked child has a copy of the list, of its parent's logs. */
static rg_log *open_logs;

/* The parent's lock would last as long as the child. Only calls that are safe in a child of threads. */
static void close_in_child(void) {
  for (rg_log *log = open_logs; log; log = log->next) {
    rg_fd_close(&log->fd);
    rg_fd_close(&log->lock);
  }
}

static void watch_forks(void) {
  static int watched;
  if (!watched) watched = pthread_atfork(NULL, NULL, close_in_child) == 0;
}

static rg_log *fail(rg_log *log, rg_log_failure *failure, const char *operation, int errnum) {
  failure->operation = operation;
  failure->errnum = errnum;
  rg_log_close(log);
  return NULL;
}

static int close_keeping_errno(int fd) {
  int saved = errno;
  close(fd);
  errno = saved;
  return -1;
}

/* Whoever could write to it could have R code run here, which reading a value may do. */
static const char *distrust(const struct stat *info) {
  if (info->st_uid != geteuid()) return "owner";
  return info->st_mode & S_IWOTH ? "mode" : NULL;
}

static int open_file(const char *folder, const char *name, int flags, struct stat *info) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = rg_fd_lift(open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd >= 0 && fstat(fd, info) < 0) return close_keeping_errno(fd);
  return fd;
}

/* The names in it survive the end of the machine from now on. */
static int sync_folder(const char *folder) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  /* Not all file systems can do this with a folder; those need not. */
  if (fsync(fd) < 0 && errno != EINVAL) return close_keeping_errno(fd);
  close(fd);
  return 0;
}

static int is_open_here(const struct stat *info) {
  for (rg_log *log = open_logs; log; log = log->next) {
    if (log->owner == getpid() && log->device == info->st_dev && log->inode == info->st_ino) return 1;
  }
  return 0;
}

static int set_lock(int fd) {
  struct flock want = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
#ifdef F_OFD_SETLK
  if (fcntl(fd, F_OFD_SETLK, &want) == 0) return 0;
  if (errno != EINVAL) return -1; /* that of kernels and file systems without them */
#endif
  return fcntl(fd, F_SETLK, &want);
}

/* A child that was forked just now may not have come to close its descriptor of the same open file. */
static void give_lock_back(int fd) {
#ifdef F_OFD_SETLK
  struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  (void)fcntl(fd, F_OFD_SETLK, &none);
#else
  (void)fd;
#endif
}

/* 0: the system cannot say. */
static pid_t lock_holder(int fd) {
  struct flock want = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(fd, F_GETLK, &want) < 0 || want.l_type == F_UNLCK) return 0;
  return want.l_pid > 0 ? want.l_pid : 0; /* -1: of an open file */
}

/* For processes elsewhere that do not get the lock. It can do without. */
static void write_holder(const char *folder) {
  char host[256] = "", text[320];
  struct stat info;
  int fd = open_file(folder, RG_LOG_HOLDER, O_WRONLY | O_CREAT, &info);
  if (fd < 0) return;
  (void)gethostname(host, sizeof host - 1);
  int size = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
  if (fchmod(fd, 0600) == 0 && rg_fd_resize(fd, 0) == 0) (void)rg_fd_pwrite_all(fd, text, (size_t)size, 0);
  close(fd);
}

/* Whether the lock is had; else *failure. */
static int take_lock(rg_log *log, const char *folder, rg_log_failure *failure) {
  char path[PATH_MAX];
  struct stat info;
  failure->holder = 0;
  /* By name: to close a descriptor of it would give a lock of the process back. */
  snprintf(path, sizeof path, "%s/" RG_LOG_LOCK, folder);
  if (stat(path, &info) == 0 && is_open_here(&info)) {
    failure->holder = getpid();
    fail(NULL, failure, "lock", EAGAIN);
    return 0;
  }
  log->lock = open_file(folder, RG_LOG_LOCK, O_RDWR | O_CREAT, &info);
  if (log->lock < 0) {
    fail(NULL, failure, "open", errno);
    return 0;
  }
  log->device = info.st_dev;
  log->inode = info.st_ino;
  if (set_lock(log->lock) < 0) {
    int errnum = errno;
    failure->holder = lock_holder(log->lock);
    fail(NULL, failure, "lock", errnum);
    return 0;
  }
  write_holder(folder);
  return 1;
}

rg_log *rg_log_open(const char *folder, int write, rg_log_failure *failure) {
  struct stat info;
  rg_log *log = calloc(1, sizeof *log);
  if (!log) return fail(NULL, failure, "open", ENOMEM);
  log->fd = log->lock = -1;
  log->may_write = write;
  log->owner = getpid();
  if (stat(folder, &info) < 0) return fail(log, failure, "open", errno);
  const char *fault = distrust(&info);
  if (fault) return fail(log, failure, fault, 0);
  if (write && !take_lock(log, folder, failure)) {
    rg_log_close(log);
    return NULL;
  }
  log->fd = open_file(folder, RG_LOG_NAME, write ? O_RDWR | O_CREAT : O_RDONLY, &info);
  if (log->fd < 0) return fail(log, failure, "open", errno);
  fault = distrust(&info);
  if (fault) return fail(log, failure, fault, 0);
  if (!S_ISREG(info.st_mode)) return fail(log, failure, "open", EINVAL);
  if (write && info.st_size == 0 && sync_folder(folder) < 0) return fail(log, failure, "fsync", errno);
  if (write) {
    watch_forks();
    log->next = open_logs;
    open_logs = log;
  }
  return log;
}

void rg_log_close(rg_log *log) {
  if (!log) return;
  for (rg_log **at = &open_logs; *at; at = &(*at)->next) {
    if (*at == log) {
      *at = log->next;
      break;
    }
  }
  if (log->fd >= 0) close(log->fd);
  if (log->lock >= 0) {
    if (log->owner == getpid()) give_lock_back(log->lock);
    close(log->lock);
  }
  free(log);
}

static uint32_t sum_of_header(const rg_log_header *header) {
  rg_log_header copy = *header;
  copy.header_sum = 0;
  return rg_checksum(&copy, sizeof copy);
}

static int is_header(const rg_log_header *header, int64_t offset, int64_t end) {
  return memcmp(header->mark, RG_LOG_MARK, sizeof header->mark) == 0 && header->offset == (uint64_t)offset &&
         header->type != 0 && header->header_sum == sum_of_header(header) &&
         header->size <= (uint64_t)(end - offset - (int64_t)sizeof *header);
}

int rg_log_read(rg_log *log, uint64_t offset, void *payload, size_t size) {
  rg_log_header header;
  if (rg_fd_pread_all(log->fd, &header, sizeof header, (int64_t)offset) < 0) return -1;
  if (header.size != size || rg_fd_pread_all(log->fd, payload, size, (int64_t)(offset + sizeof header)) < 0) return -1;
  if (rg_checksum(payload, size) == header.payload_sum) return 0;
  errno = EBADMSG;
  return -1;
}

/* 1: the file ends before that by now, at *end. Its writer has cut off what it could not write whole. -1 with errno. */
static int read_at(int fd, void *bytes, size_t size, int64_t at, int64_t *end) {
  struct stat info;
  if (rg_fd_pread_all(fd, bytes, size, at) == 0) return 0;
  if (errno != EBADMSG || fstat(fd, &info) < 0 || info.st_size >= *end) return -1;
  *end = info.st_size;
  return 1;
}

/* The offset from `from` on at which a header stands, *end if there is none; -1 with errno. */
static int64_t next_header(int fd, int64_t from, int64_t *end, char *window, size_t room) {
  rg_log_header header;
  while (*end - from >= (int64_t)sizeof header) {
    size_t size = (uint64_t)(*end - from) < room ? (size_t)(*end - from) : room;
    int got = read_at(fd, window, size, from, end);
    if (got < 0) return -1;
    if (got > 0) continue;
    for (size_t i = 0; i + sizeof header <= size; i++) {
      if (memcmp(window + i, RG_LOG_MARK, 8) != 0) continue;
      memcpy(&header, window + i, sizeof header);
      if (is_header(&header, from + (int64_t)i, *end)) return from + (int64_t)i;
    }
    from += (int64_t)(size - sizeof header + 1);
  }
  return *end;
}

int rg_log_scan(rg_log *log, rg_log_found *found, void *data, int64_t *damaged) {
  enum { ROOM = 1 << 16 };
  struct stat info;
  *damaged = 0;
  log->end = 0;
  if (fstat(log->fd, &info) < 0) return -1;
  int64_t end = info.st_size, at = 0;
  size_t room = ROOM;
  char *bytes = malloc(room);
  int status = bytes ? 0 : -1;
  while (status == 0 && at < end) {
    rg_log_header header;
    int whole = end - at >= (int64_t)sizeof header, got = 0;
    if (whole) got = read_at(log->fd, &header, sizeof header, at, &end);
    whole = whole && got == 0 && is_header(&header, at, end);
    if (whole && header.size > room) {
      char *more = realloc(bytes, header.size);
      if (!more) {
        status = -1;
        break;
      }
      bytes = more;
      room = header.size;
    }
    if (whole) got = read_at(log->fd, bytes, header.size, at + (int64_t)sizeof header, &end);
    if (got != 0) {
      status = got < 0 ? -1 : 0;
      continue;
    }
    if (whole && rg_checksum(bytes, header.size) == header.payload_sum) {
      at += (int64_t)(sizeof header + header.size);
      log->end = at;
      found(data, &header);
    } else {
      /* The size of a record whose payload is damaged is known, but where its header was changed that
         would be a guess: every byte is looked at. */
      int64_t next = next_header(log->fd, at + 1, &end, bytes, room);
      if (next < 0) {
        status = -1;
        break;
      }
      *damaged += next - at;
      at = next;
    }
  }
  int saved = errno;
  if (status == 0 && log->end == 0 && end > 0) {
    /* The first record was cut off, or this is a file of somebody else's. */
    size_t size = end < (int64_t)sizeof RG_LOG_MARK - 1 ? (size_t)end : sizeof RG_LOG_MARK - 1;
    if (rg_fd_pread_all(log->fd, bytes, size, 0) < 0 || memcmp(bytes, RG_LOG_MARK, size) != 0) {
      saved = EILSEQ;
      status = -1;
    }
  }
  free(bytes);
  errno = saved;
  if (status == 0 && log->may_write && log->end < end) status = rg_fd_resize(log->fd, log->end);
  return status;
}

/* What is written to a file without a name is lost. */
static int is_removed(const rg_log *log) {
  struct stat info;
  if (fstat(log->fd, &info) < 0) return 1;
  if (info.st_nlink > 0) return 0;
  errno = ENOENT;
  return 1;
}

static void complete(rg_log_header *header, const void *payload, int64_t offset) {
  memcpy(header->mark, RG_LOG_MARK, sizeof header->mark);
  header->offset = (uint64_t)offset;
  header->unused = 0;
  header->payload_sum = rg_checksum(payload, header->size);
  header->header_sum = sum_of_header(header);
}

int rg_log_append(rg_log *log, rg_log_header *headers, const void *const *payloads, size_t n) {
  if (!log->may_write || log->owner != getpid()) {
    errno = EPERM;
    return -1;
  }
  if (is_removed(log)) return -1;
  size_t size = 0;
  for (size_t i = 0; i < n; i++) size += sizeof *headers + headers[i].size;
  char *records = malloc(size), *at = records;
  if (!records) return -1;
  for (size_t i = 0; i < n; i++) {
    complete(headers + i, payloads[i], log->end + (at - records));
    memcpy(at, headers + i, sizeof *headers);
    memcpy(at + sizeof *headers, payloads[i], headers[i].size);
    at += sizeof *headers + headers[i].size;
  }
  int status = rg_fd_pwrite_all(log->fd, records, size, log->end);
  int saved = errno;
  free(records);
  if (status < 0) {
    /* A part is no record; where it cannot be taken away the next one is written over it. */
    (void)rg_fd_resize(log->fd, log->end);
    errno = saved;
    return -1;
  }
  log->end += (int64_t)size;
  return 0;
}

int rg_log_sync(rg_log *log) {
  if (is_removed(log)) return -1;
#ifdef __linux__
  return fdatasync(log->fd);
#else
  return fsync(log->fd);
#endif
}

int rg_log_file_begin(rg_log_file *file, const char *part) {
  *file = (rg_log_file){.fd = -1};
  unlink(part); /* of a session that was ended while it wrote */
  file->fd = rg_fd_lift(open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  return file->fd < 0 ? -1 : 0;
}

static uint32_t chain(uint32_t sum, const void *bytes, size_t size) {
  return sum * 2654435769u + rg_checksum(bytes, size);
}

int rg_log_file_write(rg_log_file *file, const void *bytes, size_t size) {
  if (rg_fd_pwrite_all(file->fd, bytes, size, file->size) < 0) return -1;
  file->size += (int64_t)size;
  file->sum = chain(file->sum, bytes, size);
  return 0;
}

int rg_log_file_end(rg_log_file *file, const char *part, const char *name, const char *folder) {
  if (fsync(file->fd) < 0) return -1;
  rg_fd_close(&file->fd);
  if (rename(part, name) < 0) return -1;
  return sync_folder(folder);
}

void rg_log_file_drop(rg_log_file *file, const char *part) {
  rg_fd_close(&file->fd);
  unlink(part);
}

int rg_log_file_check(const char *name, int64_t *size, uint32_t *sum) {
  struct stat info;
  *size = 0;
  *sum = 0;
  int fd = rg_fd_lift(open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd < 0) return -1;
  char *bytes = malloc(RG_LOG_FILE_CHUNK);
  int status = bytes && fstat(fd, &info) == 0 ? 0 : -1;
  if (status == 0 && distrust(&info)) {
    errno = EPERM;
    status = -1;
  }
  while (status == 0 && *size < info.st_size) {
    int64_t left = info.st_size - *size;
    size_t now = left < RG_LOG_FILE_CHUNK ? (size_t)left : RG_LOG_FILE_CHUNK;
    status = rg_fd_pread_all(fd, bytes, now, *size);
    if (status == 0) {
      *sum = chain(*sum, bytes, now);
      *size += (int64_t)now;
    }
  }
  int saved = errno;
  free(bytes);
  close(fd);
  errno = saved;
  return status;
}
