#include "budget.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"

/* `held` -1: no token. A copy of the process finds that it is not the owner, and has no lock. */
static struct {
  int fd, cores, low, held, waits, pause, unused;
  rg_fd_identity file;
  pid_t owner;
  int64_t since;
} budget = {.fd = -1, .held = -1};

/* Long beside RG_BUDGET_LOOK_MS, short beside what people notice. */
static const int64_t TURN_NS = (int64_t)100 * 1000000;

/* The byte of those who wait; tokens follow it. */
enum { WAITERS = 0, TOKENS = 1 };

/* Who waits has a token that is free within RG_BUDGET_LOOK_MS. Has one been free for so many looks in a row, those who
   wait do not look: they have been stopped. */
enum { UNUSED_LOOKS = 200 };

/* The same for all processes of the user, whatever their environment, unless that names it. */
static const char *folder(void) {
  const char *given = getenv("REGATTA_BUDGET");
  struct stat status;
  if (given && *given) return given;
  return stat("/dev/shm", &status) == 0 && S_ISDIR(status.st_mode) ? "/dev/shm" : "/tmp";
}

void rg_budget_path(char path[RG_BUDGET_PATH_MAX]) {
  snprintf(path, RG_BUDGET_PATH_MAX, "%s/regatta-cores-%lu", folder(), (unsigned long)geteuid());
}

/* 0: somebody else has it; -1 with errno: there are no locks. */
static int lock(int type, int at) {
  struct flock wanted = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
  if (fcntl(budget.fd, F_SETLK, &wanted) == 0) return 1;
  return errno == EAGAIN || errno == EACCES ? 0 : -1;
}

static int is_locked(int at) {
  struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
  return fcntl(budget.fd, F_GETLK, &found) == 0 && found.l_type != F_UNLCK;
}

static int somebody_waits(void) { return is_locked(WAITERS); }

static int is_ours(void) { return budget.fd >= 0 && budget.owner == getpid(); }

/* What another user has put there, or may open, could hold all tokens for ever. */
static int open_file(void) {
  char path[RG_BUDGET_PATH_MAX];
  struct stat status;
  rg_budget_path(path);
  int fd = rg_fd_lift(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (fd < 0) return -1;
  int failed = fstat(fd, &status) < 0 ? errno
               : !S_ISREG(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) ? EPERM
                                                                                                  : 0;
  if (failed) {
    rg_fd_close(&fd);
    errno = failed;
  }
  return fd;
}

/* A second descriptor would take the locks of a process that takes part with it when it is closed. */
int rg_budget_check(void) {
  if (is_ours()) return 0;
  int fd = open_file();
  if (fd < 0) return errno;
  rg_fd_close(&fd);
  return 0;
}

int rg_budget_join(int cores, int low) {
  rg_budget_leave();
  if ((budget.fd = open_file()) < 0) return errno;
  budget.file = rg_fd_identify(budget.fd);
  budget.owner = getpid();
  budget.cores = cores < 1 ? 1 : cores > RG_BUDGET_MAX ? RG_BUDGET_MAX : cores;
  budget.low = low;
  budget.unused = 0;
  return 0;
}

/* The copy of a descriptor is closed without harm: the locks are another process's. */
void rg_budget_leave(void) {
  if (budget.fd >= 0 && rg_fd_is(budget.fd, budget.file)) rg_fd_close(&budget.fd);
  budget.fd = budget.held = -1;
  budget.waits = 0;
}

int rg_budget_has(void) { return !is_ours() || budget.held >= 0; }

int rg_budget_is_whole(void) { return !is_ours() || rg_fd_is(budget.fd, budget.file); }

/* Processes begin at places of their own, so that they do not all ask for the same. */
static int place(int k) { return TOKENS + (int)(((int64_t)budget.owner + k) % budget.cores); }

static int take_token(void) {
  for (int k = 0; k < budget.cores; k++) {
    int got = lock(F_WRLCK, place(k));
    if (got == 0) continue;
    if (got > 0) {
      budget.held = place(k);
      budget.since = rg_clock_now();
    }
    return got;
  }
  return 0;
}

/* Of low priority, while somebody waits. */
static int must_yield(void) {
  int unused = 0;
  if (!budget.low || !somebody_waits()) {
    budget.unused = 0;
    return 0;
  }
  for (int k = 0; k < budget.cores && !unused; k++) unused = !is_locked(place(k));
  budget.unused = unused ? budget.unused + 1 : 0;
  return budget.unused <= UNUSED_LOOKS;
}

static void stop_waiting(void) {
  if (budget.waits && !budget.low) lock(F_UNLCK, WAITERS);
  budget.waits = 0;
}

int rg_budget_try(void) {
  if (rg_budget_has()) return 1;
  int got = must_yield() ? 0 : take_token();
  if (got) {
    int error = errno;
    stop_waiting();
    errno = error;
    return got;
  }
  if (!budget.waits) {
    budget.waits = 1;
    budget.pause = 1;
    if (!budget.low) lock(F_RDLCK, WAITERS);
  } else {
    budget.pause = budget.pause * 2 < RG_BUDGET_LOOK_MS ? budget.pause * 2 : RG_BUDGET_LOOK_MS;
  }
  return 0;
}

int rg_budget_pause(void) { return budget.pause; }

int rg_budget_more(int most) {
  int has = 1;
  for (int k = 0; k < budget.cores && has < most && !somebody_waits(); k++) {
    if (place(k) != budget.held && lock(F_WRLCK, place(k)) > 0) has++;
  }
  return has;
}

void rg_budget_give(void) {
  if (!is_ours()) return;
  stop_waiting();
  if (budget.held >= 0) lock(F_UNLCK, budget.held);
  budget.held = -1;
}

int rg_budget_is_due(int64_t now) {
  return budget.held >= 0 && (budget.low || now - budget.since > TURN_NS) && is_ours() && somebody_waits();
}

/* Who waits with low priority cannot be seen. */
int rg_budget_politeness(void) { return is_ours() && (budget.low || somebody_waits()) ? 2 * RG_BUDGET_LOOK_MS : 0; }
