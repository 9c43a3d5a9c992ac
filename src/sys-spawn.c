#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys-spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

/* Other packages' descriptors are not all closed by exec. */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
static int close_others(posix_spawn_file_actions_t *actions) {
  return posix_spawn_file_actions_addclosefrom_np(actions, RG_SPAWN_LINE + 1);
}
#else
/* One that is opened meanwhile, by another thread, is missed; and one whose number is above a limit that was lowered
   later cannot be closed so. */
static int close_others(posix_spawn_file_actions_t *actions) {
  DIR *list = opendir("/dev/fd");
  const struct dirent *entry;
  int failed = 0;
  while (list && !failed && (entry = readdir(list))) {
    int fd = atoi(entry->d_name);
    if (fd > RG_SPAWN_LINE) failed = posix_spawn_file_actions_addclose(actions, fd);
    if (failed == EBADF) failed = 0;
  }
  if (list) closedir(list);
  return failed;
}
#endif

static int set_files(posix_spawn_file_actions_t *actions, int line, int output) {
  int failed = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!failed) failed = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
  if (!failed) failed = posix_spawn_file_actions_adddup2(actions, output, STDERR_FILENO);
  if (!failed) failed = posix_spawn_file_actions_adddup2(actions, line, RG_SPAWN_LINE);
  return failed ? failed : close_others(actions);
}

/* What this process ignores a program would ignore, too. A hang-up that was to be ignored
   (nohup) stays so. */
static int set_signals(posix_spawnattr_t *attributes) {
  sigset_t all, none;
  sigfillset(&all);
  sigdelset(&all, SIGHUP);
  sigemptyset(&none);
  int failed = posix_spawnattr_setsigdefault(attributes, &all);
  if (!failed) failed = posix_spawnattr_setsigmask(attributes, &none);
  if (!failed) failed = posix_spawnattr_setpgroup(attributes, 0);
  if (!failed) {
    failed = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  return failed;
}

pid_t rg_spawn(char *const arguments[], char *const environment[], int line, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  pid_t pid = -1;
  /* Above the numbers that are given new meanings one after the other. */
  int from = fcntl(line, F_DUPFD_CLOEXEC, 16), to = fcntl(output, F_DUPFD_CLOEXEC, 16);
  int failed = from < 0 || to < 0 ? errno : 0;
  if (!failed && !(failed = posix_spawn_file_actions_init(&actions))) {
    if (!(failed = posix_spawnattr_init(&attributes))) {
      if (!(failed = set_files(&actions, from, to)) && !(failed = set_signals(&attributes))) {
        failed = posix_spawn(&pid, arguments[0], &actions, &attributes, arguments, environment);
      }
      posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  if (from >= 0) close(from);
  if (to >= 0) close(to);
  errno = failed;
  return failed ? -1 : pid;
}
