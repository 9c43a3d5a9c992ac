#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-process.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <stdio_ext.h>
#include <sys/prctl.h>
#endif

#include "sys-fd.h"
#include "sys-interrupt.h"

void rg_process_leave(int status) {
#ifdef SYS_exit_group
  for (;;) syscall(SYS_exit_group, status);
#else
  _exit(status);
#endif
}

void rg_process_flush_stdout(void) {
  static FILE **stream;
#ifdef __APPLE__
  if (!stream) stream = dlsym(RTLD_DEFAULT, "__stdoutp");
#else
  if (!stream) stream = dlsym(RTLD_DEFAULT, "stdout");
#endif
#ifdef __linux__
  if (stream && __fpending(*stream) == 0) return; /* seen without the lock of the stream */
#endif
  if (stream) fflush(*stream);
}

int rg_process_pidfd(pid_t pid) {
#ifdef SYS_pidfd_open
  return rg_fd_lift((int)syscall(SYS_pidfd_open, pid, 0));
#else
  (void)pid;
  errno = ENOSYS;
  return -1;
#endif
}

int rg_process_die_with(pid_t parent, int signal) {
#ifdef PR_SET_PDEATHSIG
  prctl(PR_SET_PDEATHSIG, signal);
#else
  (void)signal;
#endif
  return getppid() == parent ? 0 : -1;
}

int rg_process_has_ended(pid_t pid) {
  siginfo_t info;
  int failed;
  info.si_pid = 0;
  do {
    failed = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
  } while (failed < 0 && errno == EINTR);
  return failed < 0 || info.si_pid == pid; /* somebody else has collected it */
}

/* The group is killed while the number is still the child's, since it is not collected. If somebody
   else has collected it nobody knows whose the number is now. */
static int64_t peak_of(const struct rusage *usage) {
#ifdef __APPLE__
  return usage->ru_maxrss;
#else
  return (int64_t)usage->ru_maxrss * 1024;
#endif
}

int rg_process_collect(pid_t pid, rg_process_end *end) {
  int status;
  struct rusage usage;
  siginfo_t info;
  info.si_pid = 0;
  end->signal = end->status = -1;
  end->peak_bytes = -1;
  if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0) return errno != EINTR;
  if (info.si_pid != pid) return 0;
  kill(-pid, SIGKILL);
  pid_t got;
  do {
    got = wait4(pid, &status, WNOHANG, &usage);
  } while (got < 0 && errno == EINTR);
  if (got == pid) {
    if (WIFSIGNALED(status)) end->signal = WTERMSIG(status);
    if (WIFEXITED(status)) end->status = WEXITSTATUS(status);
    end->peak_bytes = peak_of(&usage);
  }
  return 1;
}

int rg_process_collect_within(pid_t pid, int64_t ms, rg_process_end *end) {
  rg_patience patience = rg_patience_of(ms * 1000000);
  struct timespec pause = {0, 50000};
  while (!rg_process_collect(pid, end)) {
    if (rg_patience_is_over(&patience)) return 0;
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < 2000000) pause.tv_nsec *= 2;
  }
  return 1;
}

void rg_process_adopt(void) { rg_process_set_adopting(1); }

void rg_process_set_adopting(int adopting) {
#ifdef PR_SET_CHILD_SUBREAPER
  prctl(PR_SET_CHILD_SUBREAPER, adopting);
#else
  (void)adopting;
#endif
}

int rg_process_adopts(void) {
  int adopting = 0;
#ifdef PR_GET_CHILD_SUBREAPER
  prctl(PR_GET_CHILD_SUBREAPER, &adopting);
#endif
  return adopting;
}

typedef struct {
  pid_t *at;
  int used, capacity;
} pid_list;

static void add_pid(pid_list *list, pid_t pid) {
  for (int i = 0; i < list->used; i++) {
    if (list->at[i] == pid) return;
  }
  if (list->used == list->capacity) {
    int capacity = list->capacity ? 2 * list->capacity : 64;
    pid_t *more = realloc(list->at, (size_t)capacity * sizeof *more);
    if (!more) return;
    list->at = more;
    list->capacity = capacity;
  }
  list->at[list->used++] = pid;
}

/* Appends the children of `pid` to `list`; /proc lists them per thread that forked them. */
static void list_children(pid_t pid, pid_list *list) {
  char path[80];
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *threads = opendir(path);
  const struct dirent *entry;
  while (threads && (entry = readdir(threads))) {
    int child, thread = atoi(entry->d_name);
    if (thread <= 0) continue;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, thread);
    FILE *file = fopen(path, "re");
    if (!file) continue;
    while (fscanf(file, "%d", &child) == 1) add_pid(list, child);
    fclose(file);
  }
  if (threads) closedir(threads);
}

int rg_process_has_children(pid_t pid) {
  pid_list list = {NULL, 0, 0};
  list_children(pid, &list);
  free(list.at);
  return list.used > 0;
}

/* A stopped process starts no new children, but one may have begun to before the stop has reached
   it: looked at again until there is nobody new. The root is alive, and stopped, to the end, so that
   orphans become its children instead of getting out of sight. */
void rg_process_kill_tree(pid_t pid) {
  enum { ROUNDS = 100 };
  pid_list tree = {NULL, 0, 0};
  int stopped = 0, again = 1;
  kill(pid, SIGSTOP);
  for (int round = 0; again && round < ROUNDS; round++) {
    int before = tree.used;
    list_children(pid, &tree);
    for (int i = 0; i < tree.used; i++) {
      if (i >= stopped) kill(tree.at[i], SIGSTOP);
      list_children(tree.at[i], &tree);
    }
    stopped = tree.used;
    again = tree.used > before;
  }
  for (int i = 0; i < tree.used; i++) kill(tree.at[i], SIGKILL);
  free(tree.at);
  rg_process_kill_group(pid);
}

/* Reads the status of a process from its name's end on, as a text; 0 if there is none. */
static int read_status(pid_t pid, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = rg_fd_lift(open(path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  ssize_t n = read(fd, text, size - 1);
  close(fd);
  text[n > 0 ? n : 0] = '\0';
  const char *name_end = strrchr(text, ')'); /* the name may have any characters */
  if (!name_end) return 0;
  memmove(text, name_end, strlen(name_end) + 1);
  return 1;
}

/* When a process began, in ticks; -1 if it is not there. With its number that says which process it is. */
static int64_t start_of(pid_t pid) {
  enum { FIELDS = 20 }; /* that come before it, the first being the end of the name */
  char text[1024], *at = text;
  if (!read_status(pid, text, sizeof text)) return -1;
  for (int field = 0; at && field < FIELDS; field++) {
    at = strchr(at, ' ');
    if (at) at++;
  }
  return at ? strtoll(at, NULL, 10) : -1;
}

struct rg_process_child {
  pid_t pid;
  int64_t start;
};

static int64_t ticks_now(void) {
#ifdef CLOCK_BOOTTIME
  struct timespec now;
  const int64_t ticks = sysconf(_SC_CLK_TCK);
  if (clock_gettime(CLOCK_BOOTTIME, &now) == 0) return now.tv_sec * ticks + now.tv_nsec * ticks / 1000000000;
#endif
  return INT64_MAX;
}

void rg_process_children_note(rg_process_children *before) {
  pid_list list = {NULL, 0, 0};
  rg_process_children_forget(before);
  list_children(getpid(), &list);
  before->child = calloc((size_t)list.used + 1, sizeof *before->child);
  for (int i = 0; before->child && i < list.used; i++) {
    before->child[i] = (struct rg_process_child){list.at[i], start_of(list.at[i])};
    before->count = i + 1;
  }
  before->since = ticks_now();
  free(list.at);
}

void rg_process_children_forget(rg_process_children *before) {
  free(before->child);
  *before = (rg_process_children){0, 0, NULL};
}

/* An orphan that is older came from one of the children that were there before. */
static int has_come(const rg_process_children *before, pid_t pid) {
  int64_t start = start_of(pid);
  for (int i = 0; i < before->count; i++) {
    if (before->child[i].pid == pid && before->child[i].start == start) return 0;
  }
  return start >= before->since;
}

/* Appends those that have come to `list`. */
static void list_new(const rg_process_children *before, pid_list *list) {
  pid_list all = {NULL, 0, 0};
  if (before->child) list_children(getpid(), &all);
  for (int i = 0; i < all.used; i++) {
    if (has_come(before, all.at[i])) add_pid(list, all.at[i]);
  }
  free(all.at);
}

int rg_process_children_came(const rg_process_children *before) {
  pid_list list = {NULL, 0, 0};
  list_new(before, &list);
  free(list.at);
  return list.used > 0;
}

/* Orphans that a killed one leaves are found by the next look. */
void rg_process_children_end(const rg_process_children *before) {
  const struct timespec pause = {0, 1000000};
  rg_patience patience = rg_patience_of((int64_t)3000000000);
  int left = 1;
  while (left && !rg_patience_is_over(&patience)) {
    pid_list list = {NULL, 0, 0};
    list_new(before, &list);
    left = list.used;
    for (int i = 0; i < list.used; i++) rg_process_kill_tree(list.at[i]);
    if (left) nanosleep(&pause, NULL);
    for (int i = 0; i < list.used; i++) waitpid(list.at[i], NULL, WNOHANG);
    free(list.at);
  }
}

void rg_process_kill_group(pid_t pid) {
  if (pid <= 1) return;
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL); /* it may have left the group, or never have got one */
}

/* The numbers at the beginning of a text; a number that is cut off at its end is left out. */
static int kill_numbers(const char *text, ssize_t size) {
  int count = 0;
  pid_t pid = 0;
  for (ssize_t i = 0; i < size; i++) {
    if (text[i] >= '0' && text[i] <= '9') {
      pid = pid * 10 + (text[i] - '0');
    } else {
      if (pid > 1) count += kill(pid, SIGKILL) == 0;
      pid = 0;
    }
  }
  return count;
}

/* Each killed child leaves its own to this process. No allocation, no stdio: this runs in signal
   handlers and beside the main thread. Orphans are given to the main thread where it is alive. */
void rg_process_end_children(void) {
  enum { ROUNDS = 200 };
  const struct timespec pause = {0, 1000000};
  int kept = errno;
  for (int round = 0; round < ROUNDS; round++) {
    char path[64] = "/proc/self/task/", text[4096], digits[16];
    int at = (int)strlen(path), n = 0;
    for (pid_t rest = getpid(); rest > 0; rest /= 10) digits[n++] = (char)('0' + rest % 10);
    while (n > 0) path[at++] = digits[--n];
    memcpy(path + at, "/children", sizeof "/children");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) break;
    ssize_t size = read(fd, text, sizeof text);
    close(fd);
    if (kill_numbers(text, size) == 0) break;
    nanosleep(&pause, NULL);
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
  errno = kept;
}

/* Whether `mark` is a part of the value of `name` among the `size` bytes of an environment, which end
   with a NUL. */
static int has_mark(const char *environment, size_t size, const char *name, const char *mark) {
  size_t length = strlen(name), part = strlen(mark);
  for (const char *at = environment; at < environment + size; at += strlen(at) + 1) {
    if (strncmp(at, name, length) != 0 || at[length] != '=') continue;
    for (const char *value = at + length; value; value = strchr(value, ':')) {
      value++;
      if (strncmp(value, mark, part) == 0 && (value[part] == ':' || value[part] == '\0')) return 1;
    }
  }
  return 0;
}

static int is_marked(const char *pid, const char *name, const char *mark, char *room, size_t most) {
  char path[80];
  snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
  int fd = rg_fd_lift(open(path, O_RDONLY | O_CLOEXEC)); /* fails for processes of others */
  if (fd < 0) return 0;
  size_t size = 0;
  ssize_t n;
  while (size < most - 1 && (n = read(fd, room + size, most - 1 - size)) > 0) size += (size_t)n;
  close(fd);
  room[size] = '\0';
  return has_mark(room, size, name, mark);
}

void rg_process_kill_marked(const char *name, const char *mark) {
  enum { MOST = 1 << 20, ROUNDS = 10 };
  char *room = malloc(MOST);
  int found = 1;
  /* Until a look finds nobody: one may start another just then. */
  for (int round = 0; room && found && round < ROUNDS; round++) {
    const struct dirent *entry;
    DIR *processes = opendir("/proc");
    found = 0;
    while (processes && (entry = readdir(processes))) {
      pid_t pid = (pid_t)atoi(entry->d_name);
      if (pid <= 1 || pid == getpid() || !is_marked(entry->d_name, name, mark, room, MOST)) continue;
      found += kill(pid, SIGKILL) == 0;
    }
    if (processes) closedir(processes);
  }
  free(room);
}

int rg_process_is_asleep(pid_t pid) {
  char text[1024];
  return read_status(pid, text, sizeof text) && strncmp(text, ") S", 3) == 0;
}

int64_t rg_process_cpu(pid_t pid) {
  clockid_t clock;
  struct timespec used;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return -1;
  return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static int64_t nanoseconds(struct timeval time) {
  return (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_usec * 1000;
}

void rg_process_use(rg_process_usage *usage) {
  struct rusage now;
  memset(&now, 0, sizeof now);
  getrusage(RUSAGE_SELF, &now);
  usage->cpu_ns = nanoseconds(now.ru_utime) + nanoseconds(now.ru_stime);
  usage->peak_bytes = peak_of(&now);
}
