#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fork-crash.h"

#include <Rinternals.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

#include "call-r.h"
#include "sys-process.h"

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
enum { CRASH_SIGNALS = sizeof crash_signals / sizeof *crash_signals };

static struct {
  char *text;
  size_t size, used;
  volatile sig_atomic_t signal; /* being handled */
  pid_t pid;                    /* the worker: a child that it forks only dies */
  struct sigaction r_segv;      /* what R does on SIGSEGV */
  volatile sig_atomic_t overflowed;
} crash;

static void add_text(const char *text, size_t size) {
  if (!crash.text) return;
  size_t room = crash.size - 1 - crash.used;
  if (size > room) size = room;
  memcpy(crash.text + crash.used, text, size);
  crash.used += size;
  crash.text[crash.used] = '\0';
}

static void add_line(const char *line) {
  add_text(line, strlen(line));
  add_text("\n", 1);
}

static void die(int signal_number) {
  if (getpid() == crash.pid) rg_process_end_children();
  signal(signal_number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal_number);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  raise(signal_number);
  rg_process_leave(128 + signal_number);
}

static void on_alarm(int unused) {
  (void)unused;
  die(crash.signal);
}

/* backtrace_symbols_fd() allocates nothing; it writes to a descriptor, so a pipe brings
   its lines into memory. */
static void add_c_calls(void) {
#ifdef __GLIBC__
  void *frames[32];
  char lines[4096];
  int fd[2];
  int count = backtrace(frames, 32);
  if (pipe(fd) < 0) return;
  backtrace_symbols_fd(frames, count, fd[1]);
  close(fd[1]);
  add_line("C calls, innermost first:");
  ssize_t n;
  while ((n = read(fd[0], lines, sizeof lines)) > 0) add_text(lines, (size_t)n);
  close(fd[0]);
#endif
}

static void add_r_calls(void *unused) {
  (void)unused;
  SEXP lines = PROTECT(rg_call_r("crash_calls", 0));
  if (TYPEOF(lines) == STRSXP && XLENGTH(lines) > 0) add_line("R calls, innermost last:");
  for (R_xlen_t i = 0; TYPEOF(lines) == STRSXP && i < XLENGTH(lines); i++) {
    add_line(CHAR(STRING_ELT(lines, i)));
  }
  UNPROTECT(1);
}

/* Not async-signal-safe from add_r_calls() on, and it cannot be: the calls that led here
   are known to R alone. The process is lost anyway. If R's state is broken, a second crash
   or the alarm ends it, with what was written so far. */
static void on_crash(int signal_number) {
  if (crash.signal || getpid() != crash.pid) die(signal_number);
  crash.signal = signal_number;
  signal(SIGALRM, on_alarm);
  alarm(2);
  add_c_calls();
  for (int i = 0; i < CRASH_SIGNALS; i++) signal(crash_signals[i], die);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, NULL);
  R_ToplevelExec(add_r_calls, NULL);
  die(signal_number);
}

/* R's own handler takes an address for that of a stack that has overflowed if it is in the stack or
   up to 16 MB beyond its end; for anything else it would end the session, temporary files and all,
   which is not the worker's to do. The ends of the stack are not part of R's API, so they are looked
   up by name; where R does not show them an overflow is a crash like others. From the first overflow
   on R may have no limit any more. */
static int is_overflow(const siginfo_t *info) {
  const uintptr_t beyond = (uintptr_t)16 << 20;
  const uintptr_t *start = dlsym(RTLD_DEFAULT, "R_CStackStart");
  const uintptr_t *limit = dlsym(RTLD_DEFAULT, "R_CStackLimit");
  const int *direction = dlsym(RTLD_DEFAULT, "R_CStackDir");
  if (!info || info->si_code <= 0 || !start || !limit || !direction) return 0;
  if (*start == (uintptr_t)-1) return 0;
  uintptr_t at = (uintptr_t)info->si_addr;
  uintptr_t used = *direction > 0 ? *start - at : at - *start;
  return used > 0 && used < (*limit == (uintptr_t)-1 ? 0 : *limit) + beyond;
}

static void set_handler(int number, int flags, void (*handler)(int),
                        void (*detailed)(int, siginfo_t *, void *)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags;
  if (detailed) {
    action.sa_sigaction = detailed;
  } else {
    action.sa_handler = handler;
  }
  sigaction(number, &action, NULL);
}

/* On the stack that R keeps for signals, the only one that is left when the C stack is full. R then
   writes that it has overflowed and jumps to the top level. R code cannot be run on this stack: any
   other crash is handled where it happened, when the instruction fails once more. */
static void on_segv(int number, siginfo_t *info, void *context) {
  int r_can = (crash.r_segv.sa_flags & SA_SIGINFO) && crash.r_segv.sa_sigaction;
  if (getpid() == crash.pid && r_can && is_overflow(info)) {
    crash.overflowed = 1;
    crash.r_segv.sa_sigaction(number, info, context);
  }
  set_handler(number, 0, on_crash, NULL);
  if (!info || info->si_code <= 0) raise(number); /* somebody has sent it */
}

static void watch_segv(void) { set_handler(SIGSEGV, SA_SIGINFO | SA_ONSTACK, NULL, on_segv); }

/* R 4.6 leaves the signal to the system before it jumps: the next overflow would be the worker's end. */
int rg_fork_crash_overflowed(void) {
  int before = crash.overflowed;
  crash.overflowed = 0;
  if (before) watch_segv();
  return before;
}

void rg_fork_crash_point(char *text, size_t size) {
  crash.text = text;
  crash.size = text ? size : 0;
  crash.used = 0;
}

void rg_fork_crash_prepare(void) {
#ifdef __GLIBC__
  static int prepared;
  void *frame[1];
  if (!prepared) backtrace(frame, 1); /* loads its library, for which memory must be allocated */
  prepared = 1;
#endif
}

void rg_fork_crash_install(char *text, size_t size) {
  rg_fork_crash_point(text, size);
  crash.signal = 0;
  crash.pid = getpid();
  rg_fork_crash_prepare();
  for (int i = 0; i < CRASH_SIGNALS; i++) {
    if (crash_signals[i] != SIGSEGV) set_handler(crash_signals[i], 0, on_crash, NULL);
  }
  struct sigaction before;
  sigaction(SIGSEGV, NULL, &before);
  /* In a worker of a worker it is ours, and R's is known. */
  int ours = (before.sa_flags & SA_SIGINFO) && before.sa_sigaction == on_segv;
  if (!ours) crash.r_segv = before;
  watch_segv();
}
