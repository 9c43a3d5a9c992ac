#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "log.h"
#include "single-step.h"

/* A log loses no whole record, takes nothing else for one, and is written to by one process at a time. */

enum { FILE_MAX = 1 << 16, RECORDS_MAX = 64, PAYLOAD_MAX = 4096 };

/* What the system does with bytes on their way to files and back. All zero: nothing but its work. */
static struct {
  int short_moves;     /* few bytes at a time, and interrupted in between */
  int64_t room;        /* of a file, from where on the disk is full */
  int64_t dies_after;  /* bytes that are written, after which the process is killed */
  int refuses_cuts;    /* files cannot be made shorter */
  int cut_before_read; /* before so many more reads the file is cut off at its middle, as its writer may do */
} fault;

static int folders_synced;

static size_t moved_at_once(size_t size) {
  static unsigned calls;
  if (!fault.short_moves) return size;
  if (++calls % 3 == 0) {
    errno = EINTR;
    return 0;
  }
  return size < 7 ? size : 7;
}

/* In place of those of the C library. */
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
  size_t now = moved_at_once(size);
  if (now == 0 && size > 0) return -1;
  if (fault.room && offset >= fault.room) {
    errno = ENOSPC;
    return -1;
  }
  if (fault.room && offset + (off_t)now > fault.room) now = (size_t)(fault.room - offset);
  int last = fault.dies_after && (int64_t)now >= fault.dies_after;
  if (last) now = (size_t)fault.dies_after;
  ssize_t wrote = (ssize_t)syscall(SYS_pwrite64, fd, bytes, now, offset);
  if (last) raise(SIGKILL);
  if (fault.dies_after) fault.dies_after -= wrote;
  return wrote;
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset) {
  struct stat info;
  size_t now = moved_at_once(size);
  if (now == 0 && size > 0) return -1;
  if (fault.cut_before_read && --fault.cut_before_read == 0 && fstat(fd, &info) == 0) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    CHECK(truncate(name, info.st_size / 2) == 0);
  }
  return (ssize_t)syscall(SYS_pread64, fd, bytes, now, offset);
}

int ftruncate(int fd, off_t size) {
  if (!fault.refuses_cuts) return (int)syscall(SYS_ftruncate, fd, size);
  errno = EIO;
  return -1;
}

int fsync(int fd) {
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) folders_synced++;
  return (int)syscall(SYS_fsync, fd);
}

static void no_fault(void) { memset(&fault, 0, sizeof fault); }

static char folder[200];

static const char *path_of(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void make_folder(void) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/regatta-log-XXXXXX", base != NULL ? base : P_tmpdir);
  CHECK(mkdtemp(folder) != NULL);
}

static void drop_folder(void) {
  unlink(path_of(RG_LOG_NAME));
  unlink(path_of(RG_LOG_LOCK));
  unlink(path_of(RG_LOG_HOLDER));
  rmdir(folder);
}

typedef struct {
  rg_log_header at[RECORDS_MAX];
  int count;
  int64_t damaged;
} records;

static void note(void *data, const rg_log_header *header) {
  records *all = data;
  if (all->count < RECORDS_MAX) all->at[all->count++] = *header;
}

/* NULL: it is somebody else's, or no log. */
static rg_log *open_log(int write, records *all) {
  rg_log_failure failure;
  rg_log *log = rg_log_open(folder, write, &failure);
  all->count = 0;
  if (log && rg_log_scan(log, note, all, &all->damaged) < 0) {
    rg_log_close(log);
    return NULL;
  }
  return log;
}

/* What the payload of record `index` is, by its number alone. */
static size_t payload_of(uint64_t index, unsigned char *bytes) {
  uint64_t state = index;
  size_t size = (size_t)check_below(&state, 200);
  for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)check_random(&state);
  return size;
}

static int append(rg_log *log, uint64_t index) {
  unsigned char payload[PAYLOAD_MAX];
  rg_log_header header = {.type = 2, .index = index};
  header.size = payload_of(index, payload);
  const void *const bytes = payload;
  return rg_log_append(log, &header, &bytes, 1);
}

/* Records `from` to `to` at once. */
static int append_many(rg_log *log, uint64_t from, uint64_t to) {
  static unsigned char payload[RECORDS_MAX][PAYLOAD_MAX];
  rg_log_header headers[RECORDS_MAX];
  const void *bytes[RECORDS_MAX];
  size_t n = 0;
  for (uint64_t i = from; i <= to; i++, n++) {
    headers[n] = (rg_log_header){.type = 2, .index = i, .size = payload_of(i, payload[n])};
    bytes[n] = payload[n];
  }
  return rg_log_append(log, headers, bytes, n);
}

/* Whether the record has what was appended as number `index`. */
static int is_record(rg_log *log, const rg_log_header *header, uint64_t index) {
  unsigned char expected[PAYLOAD_MAX], payload[PAYLOAD_MAX];
  size_t size = payload_of(index, expected);
  return header->index == index && header->size == size && rg_log_read(log, header->offset, payload, size) == 0 &&
         memcmp(payload, expected, size) == 0;
}

static long read_file(unsigned char *bytes) {
  int fd = open(path_of(RG_LOG_NAME), O_RDONLY);
  long size = (long)read(fd, bytes, FILE_MAX);
  close(fd);
  return size;
}

static void write_file(const unsigned char *bytes, long size) {
  int fd = open(path_of(RG_LOG_NAME), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(write(fd, bytes, (size_t)size) == size);
  close(fd);
}

enum { FEW = 5 };

static long few_records(unsigned char *bytes) {
  records all;
  rg_log *log = open_log(1, &all);
  CHECK(log != NULL);
  for (uint64_t i = 1; log && i <= FEW; i++) CHECK(append(log, i) == 0);
  rg_log_close(log);
  return read_file(bytes);
}

TEST(log_that_is_cut_anywhere_has_all_whole_records) {
  static unsigned char bytes[FILE_MAX];
  records whole, all;
  make_folder();
  long size = few_records(bytes);
  rg_log_close(open_log(0, &whole));
  CHECK(whole.count == FEW && whole.damaged == 0);
  for (long cut = 0; cut < size; cut++) {
    write_file(bytes, cut);
    rg_log *log = open_log(1, &all);
    int expected = 0;
    while (expected < FEW &&
           whole.at[expected].offset + sizeof(rg_log_header) + whole.at[expected].size <= (uint64_t)cut) {
      expected++;
    }
    CHECK(log != NULL && all.count == expected);
    /* What is appended after it can be read, with what was there. */
    CHECK(log && append(log, 77) == 0);
    rg_log_close(log);
    log = open_log(0, &all);
    CHECK(log && all.count == expected + 1 && all.damaged == 0 && is_record(log, &all.at[expected], 77));
    rg_log_close(log);
  }
  drop_folder();
}

TEST(log_that_is_damaged_anywhere_has_lost_that_record) {
  static unsigned char bytes[FILE_MAX];
  records whole, all;
  make_folder();
  long size = few_records(bytes);
  rg_log_close(open_log(0, &whole));
  for (long at = 0; at < size; at += 1) {
    bytes[at] ^= (unsigned char)(1 << at % 8);
    write_file(bytes, size);
    bytes[at] ^= (unsigned char)(1 << at % 8);
    int lost = 0;
    while (lost + 1 < FEW && whole.at[lost + 1].offset <= (uint64_t)at) lost++;
    rg_log *log = open_log(0, &all);
    CHECK(log && all.count == FEW - 1);
    for (int k = 0; log && k < all.count; k++) CHECK(is_record(log, &all.at[k], (uint64_t)(k < lost ? k : k + 1) + 1));
    CHECK(all.damaged == (int64_t)(sizeof(rg_log_header) + whole.at[lost].size));
    rg_log_close(log);
  }
  drop_folder();
}

TEST(log_takes_no_bytes_of_a_payload_for_a_record) {
  static unsigned char bytes[FILE_MAX];
  records all;
  make_folder();
  long size = few_records(bytes);
  rg_log *log = open_log(1, &all);
  rg_log_header header = {.type = 2, .index = 6, .size = (uint64_t)size};
  const void *const payload = bytes;
  CHECK(log && rg_log_append(log, &header, &payload, 1) == 0);
  rg_log_close(log);
  /* Its header is damaged, so that its payload is searched. */
  size = read_file(bytes);
  bytes[header.offset + 9] ^= 1;
  write_file(bytes, size);
  log = open_log(0, &all);
  CHECK(log && all.count == FEW && all.damaged == (int64_t)(sizeof header + header.size));
  rg_log_close(log);
  drop_folder();
}

TEST(log_of_others_is_not_touched) {
  records all;
  make_folder();
  write_file((const unsigned char *)"something else", 14);
  CHECK(open_log(1, &all) == NULL && errno == EILSEQ);
  CHECK(chmod(folder, 0777) == 0);
  rg_log_failure failure;
  CHECK(rg_log_open(folder, 1, &failure) == NULL && strcmp(failure.operation, "mode") == 0);
  drop_folder();
}

/* Whether another process gets the lock. */
static int other_gets_it(void) {
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) {
    rg_log_failure failure;
    rg_log *log = rg_log_open(folder, 1, &failure);
    _exit(log ? 1 : strcmp(failure.operation, "lock") == 0 ? 0 : 2);
  }
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) < 2);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

TEST(log_is_locked_until_it_is_closed_whatever_its_process_opens) {
  records all, other;
  make_folder();
  rg_log *log = open_log(1, &all);
  CHECK(log != NULL && !other_gets_it());
  CHECK(open_log(1, &other) == NULL && errno != 0);
#ifdef F_OFD_SETLK
  /* As whoever copies the folder does. */
  close(open(path_of(RG_LOG_LOCK), O_RDONLY));
  CHECK(!other_gets_it());
#endif
  struct stat info;
  CHECK(stat(path_of(RG_LOG_HOLDER), &info) == 0 && (info.st_mode & 0777) == 0600 && info.st_size > 8);
  rg_log_close(log);
  CHECK(other_gets_it());
  drop_folder();
}

/* A child of the process that has the lock, which lives on. */
static pid_t sleeping_child(void) {
  pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  return pid;
}

TEST(log_is_free_when_its_process_has_ended_or_closed_it_and_children_live_on) {
  records all;
  make_folder();
  rg_log *log = open_log(1, &all);
  pid_t child = sleeping_child();
  CHECK(!other_gets_it());
  rg_log_close(log);
  CHECK(other_gets_it());
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);

  int pipe_of[2], status;
  CHECK(pipe(pipe_of) == 0);
  pid_t holder = fork();
  if (holder == 0) {
    pid_t inner = open_log(1, &all) ? sleeping_child() : 0;
    if (write(pipe_of[1], &inner, sizeof inner) != sizeof inner) _exit(1);
    for (;;) pause();
  }
  pid_t inner = 0;
  CHECK(read(pipe_of[0], &inner, sizeof inner) == sizeof inner && inner > 0);
  CHECK(!other_gets_it());
  kill(holder, SIGKILL);
  waitpid(holder, &status, 0);
  /* The child within may have to come to it yet. */
  int gets_it = other_gets_it();
  for (int k = 0; k < 10000 && !gets_it; k++) {
    const struct timespec pause_ms = {0, 1000000};
    nanosleep(&pause_ms, NULL);
    gets_it = other_gets_it();
  }
  CHECK(inner > 0 && kill(inner, 0) == 0 && gets_it);
  if (inner > 0) kill(inner, SIGKILL);
  close(pipe_of[0]);
  close(pipe_of[1]);
  drop_folder();
}

TEST(log_whose_file_was_removed_takes_nothing) {
  records all;
  make_folder();
  rg_log *log = open_log(1, &all);
  CHECK(log && append(log, 1) == 0 && rg_log_sync(log) == 0);
  unlink(path_of(RG_LOG_NAME));
  CHECK(log && append(log, 2) < 0 && errno == ENOENT);
  CHECK(log && rg_log_sync(log) < 0 && errno == ENOENT);
  rg_log_close(log);
  drop_folder();
}

/* Appends three records to a log that has two. */
static void append_three(void *state) {
  records all;
  rg_log *log = open_log(1, &all);
  (void)state;
  if (!log) _exit(1);
  for (uint64_t i = 3; i <= 5; i++) {
    if (append(log, i) < 0) _exit(1);
  }
  rg_log_close(log);
}

TEST(log_of_a_process_that_was_killed_while_it_appends_has_its_first_records) {
  static unsigned char bytes[FILE_MAX];
  records all;
  make_folder();
  few_records(bytes);
  rg_log_close(open_log(0, &all));
  long two = (long)all.at[2].offset;
  int most = 0;
  for (long n = 1;; n += 1 + n * check_stride / 16) {
    write_file(bytes, two);
    step_end end = step_and_kill(n, append_three, NULL);
    if (end == STEP_REFUSED) {
      check_skip("nobody may look into a process");
      break;
    }
    CHECK(end != STEP_BROKEN);
    rg_log *log = open_log(1, &all);
    CHECK(log && all.count >= 2 && all.count <= FEW);
    for (int k = 0; log && k < all.count; k++) CHECK(is_record(log, &all.at[k], (uint64_t)k + 1));
    most = all.count;
    CHECK(log && append(log, 6) == 0);
    rg_log_close(log);
    if (end == STEP_ENDED) break;
  }
  CHECK(most == FEW || most == 0);
  drop_folder();
}

TEST(log_that_is_read_and_written_in_pieces_is_the_same) {
  static unsigned char at_once[FILE_MAX], in_pieces[FILE_MAX];
  records all;
  make_folder();
  long size = few_records(at_once);
  drop_folder();
  make_folder();
  fault.short_moves = 1;
  CHECK(few_records(in_pieces) == size && memcmp(at_once, in_pieces, (size_t)size) == 0);
  rg_log *log = open_log(1, &all);
  CHECK(log && all.count == FEW && all.damaged == 0);
  for (int k = 0; log && k < all.count; k++) CHECK(is_record(log, &all.at[k], (uint64_t)k + 1));
  rg_log_close(log);
  no_fault();
  drop_folder();
}

static long end_of(const rg_log_header *header) { return (long)(header->offset + sizeof *header + header->size); }

/* Records 3 to FEW, one by one or all at once. */
static void die_while_appending(int64_t after, int together) {
  records all;
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) {
    rg_log *log = open_log(1, &all);
    fault.dies_after = after;
    if (together) append_many(log, 3, FEW);
    for (uint64_t i = 3; !together && i <= FEW; i++) append(log, i);
    _exit(1);
  }
  waitpid(pid, &status, 0);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(log_of_a_process_that_was_killed_after_any_byte_has_the_records_before) {
  static unsigned char bytes[FILE_MAX];
  records whole, all;
  make_folder();
  long size = few_records(bytes);
  rg_log_close(open_log(0, &whole));
  long two = (long)whole.at[2].offset;
  for (long after = 1; after <= size - two; after += check_stride) {
    write_file(bytes, two);
    die_while_appending(after, after % 2);
    rg_log *log = open_log(0, &all);
    int expected = 2;
    while (expected < FEW && end_of(&whole.at[expected]) <= two + after) expected++;
    CHECK(log && all.count == expected);
    for (int k = 0; log && k < all.count; k++) CHECK(is_record(log, &all.at[k], (uint64_t)k + 1));
    rg_log_close(log);
    log = open_log(1, &all);
    CHECK(log && all.count == expected && append(log, 6) == 0);
    rg_log_close(log);
    log = open_log(0, &all);
    CHECK(log && all.count == expected + 1 && all.damaged == 0);
    rg_log_close(log);
  }
  drop_folder();
}

/* Appends record `large` to a log of two when the disk has room for `room` bytes of it, later 4 and 5. */
static void fill_disk(int64_t two, uint64_t large, int64_t room) {
  records all;
  rg_log *log = open_log(1, &all);
  CHECK(log && all.count == 2);
  fault.room = two + room;
  CHECK(log && append(log, large) < 0 && errno == ENOSPC);
  records now;
  rg_log *reader = open_log(0, &now);
  CHECK(reader && now.count == 2 && now.damaged == (fault.refuses_cuts ? room : 0));
  rg_log_close(reader);
  fault.room = 0;
  CHECK(log && append(log, 4) == 0 && append(log, 5) == 0);
  rg_log_close(log);
  log = open_log(0, &all);
  CHECK(log && all.count == 4);
  for (int k = 0; log && k < all.count; k++) {
    const rg_log_header *last = &all.at[k ? k - 1 : 0];
    CHECK(k == 0 || all.at[k].offset == last->offset + sizeof *last + last->size);
    CHECK(is_record(log, &all.at[k], (uint64_t)(k < 2 ? k + 1 : k + 2)));
  }
  rg_log_close(log);
}

TEST(log_on_a_full_disk_has_all_whole_records_and_goes_on_when_there_is_room) {
  static unsigned char bytes[FILE_MAX];
  records whole;
  make_folder();
  few_records(bytes);
  rg_log_close(open_log(0, &whole));
  /* What is written over it is shorter. */
  unsigned char payload[PAYLOAD_MAX];
  uint64_t large = 6;
  while (payload_of(large, payload) <= whole.at[3].size + 10) large++;
  int64_t two = (int64_t)whole.at[2].offset, most = (int64_t)(sizeof(rg_log_header) + payload_of(large, payload));
  for (fault.refuses_cuts = 0; fault.refuses_cuts < 2; fault.refuses_cuts++) {
    for (int64_t room = 0; room < most; room += check_stride) {
      write_file(bytes, two);
      fill_disk(two, large, room);
    }
  }
  no_fault();
  drop_folder();
}

TEST(log_that_is_new_has_its_name_on_the_disk) {
  records all;
  make_folder();
  folders_synced = 0;
  rg_log *log = open_log(1, &all);
  CHECK(log && folders_synced == 1 && append(log, 1) == 0);
  rg_log_close(log);
  rg_log_close(open_log(1, &all));
  CHECK(folders_synced == 1);
  drop_folder();
}

TEST(log_takes_all_of_several_records_or_none) {
  static unsigned char one_by_one[FILE_MAX], together[FILE_MAX];
  records all;
  make_folder();
  long size = few_records(one_by_one);
  unlink(path_of(RG_LOG_NAME));
  rg_log *log = open_log(1, &all);
  fault.room = size - 1;
  CHECK(log && append_many(log, 1, FEW) < 0 && errno == ENOSPC);
  no_fault();
  CHECK(read_file(together) == 0);
  CHECK(log && append_many(log, 1, FEW) == 0);
  CHECK(read_file(together) == size && memcmp(one_by_one, together, (size_t)size) == 0);
  CHECK(log && append(log, 6) == 0);
  rg_log_close(log);
  log = open_log(0, &all);
  CHECK(log && all.count == FEW + 1 && all.damaged == 0);
  rg_log_close(log);
  drop_folder();
}

TEST(log_that_may_not_grow_says_so_and_ends_nobody) {
  static unsigned char bytes[FILE_MAX];
  records all;
  struct rlimit before, limit;
  make_folder();
  long size = few_records(bytes);
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = (rlim_t)size + 10;
  rg_log *log = open_log(1, &all);
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  CHECK(log && append(log, 6) < 0 && errno == EFBIG);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  struct stat info;
  CHECK(stat(path_of(RG_LOG_NAME), &info) == 0 && info.st_size == size);
  CHECK(log && append(log, 6) == 0);
  rg_log_close(log);
  drop_folder();
}

TEST(log_whose_writer_cuts_it_off_while_it_is_read_has_what_is_left) {
  static unsigned char bytes[FILE_MAX];
  records all;
  make_folder();
  long size = few_records(bytes);
  for (int reads = 1; reads <= 2 * FEW; reads++) {
    write_file(bytes, size);
    fault.cut_before_read = reads;
    rg_log *log = open_log(0, &all);
    CHECK(log && all.count >= 1 && all.count <= FEW);
    for (int k = 0; log && k < all.count; k++) {
      if (all.at[k].offset + sizeof(rg_log_header) + all.at[k].size > (uint64_t)size / 2) continue;
      CHECK(is_record(log, &all.at[k], (uint64_t)k + 1));
    }
    rg_log_close(log);
    no_fault();
  }
  drop_folder();
}

enum { LARGE = 3 * RG_LOG_FILE_CHUNK + 1000 };

static int write_value(const char *part, const char *name, const unsigned char *bytes, size_t most) {
  rg_log_file file;
  int status = rg_log_file_begin(&file, part);
  for (size_t at = 0; status == 0 && at < most; at += RG_LOG_FILE_CHUNK) {
    size_t left = most - at;
    status = rg_log_file_write(&file, bytes + at, left < RG_LOG_FILE_CHUNK ? left : RG_LOG_FILE_CHUNK);
  }
  if (status == 0) status = rg_log_file_end(&file, part, name, folder);
  int saved = errno;
  if (status < 0) rg_log_file_drop(&file, part);
  errno = saved;
  return status;
}

TEST(value_in_a_file_is_there_whole_or_not_at_all) {
  static unsigned char bytes[LARGE];
  char part[256], name[256];
  uint64_t state = 1;
  int64_t size, other_size;
  uint32_t sum, other_sum;
  make_folder();
  snprintf(part, sizeof part, "%s/value.part", folder);
  snprintf(name, sizeof name, "%s/value", folder);
  for (size_t i = 0; i < LARGE; i++) bytes[i] = (unsigned char)check_random(&state);
  CHECK(rg_log_file_check(name, &size, &sum) < 0 && errno == ENOENT);

  /* The disk is full, or the process is killed, within a chunk, between two, and before the last byte. */
  const int64_t ends[] = {1, RG_LOG_FILE_CHUNK / 2, RG_LOG_FILE_CHUNK, LARGE - 1};
  for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
    fault.room = ends[k];
    CHECK(write_value(part, name, bytes, LARGE) < 0 && errno == ENOSPC);
    CHECK(access(part, F_OK) < 0 && access(name, F_OK) < 0);
    no_fault();
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
      fault.dies_after = ends[k];
      write_value(part, name, bytes, LARGE);
      _exit(1);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && access(part, F_OK) == 0 && access(name, F_OK) < 0);
  }

  fault.short_moves = 1;
  folders_synced = 0;
  CHECK(write_value(part, name, bytes, LARGE) == 0 && access(part, F_OK) < 0 && folders_synced == 1);
  CHECK(rg_log_file_check(name, &size, &sum) == 0 && size == LARGE);
  no_fault();
  CHECK(rg_log_file_check(name, &other_size, &other_sum) == 0 && other_size == size && other_sum == sum);
  int fd = open(name, O_WRONLY);
  const unsigned char flipped = bytes[RG_LOG_FILE_CHUNK] ^ 1;
  CHECK(pwrite(fd, &flipped, 1, RG_LOG_FILE_CHUNK) == 1);
  CHECK(rg_log_file_check(name, &other_size, &other_sum) == 0 && other_size == size && other_sum != sum);
  close(fd);
  CHECK(chmod(name, 0666) == 0 && rg_log_file_check(name, &size, &sum) < 0 && errno == EPERM);
  unlink(name);
  drop_folder();
}
