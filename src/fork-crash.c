#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fork-crash.h"

#include <Rinternals.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

#include "sys-process.h"

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
enum { CRASH_SIGNALS = sizeof crash_signals / sizeof *crash_signals };

static struct {
  char *text;
  size_t size, used;
  volatile sig_atomic_t signal; /* being handled */
  pid_t pid;                    /* the worker: a child that it forks only dies */
} crash;

static void add_text(const char *text, size_t size) {
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
  SEXP package = PROTECT(Rf_mkString("regatta"));
  SEXP space = PROTECT(R_FindNamespace(package));
  SEXP call = PROTECT(Rf_lang1(Rf_install("crash_calls")));
  SEXP lines = PROTECT(Rf_eval(call, space));
  if (TYPEOF(lines) == STRSXP && XLENGTH(lines) > 0) add_line("R calls, innermost last:");
  for (R_xlen_t i = 0; TYPEOF(lines) == STRSXP && i < XLENGTH(lines); i++) {
    add_line(CHAR(STRING_ELT(lines, i)));
  }
  UNPROTECT(4);
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

void rg_fork_crash_install(char *text, size_t size) {
  crash.text = text;
  crash.size = size;
  crash.used = 0;
  crash.signal = 0;
  crash.pid = getpid();
#ifdef __GLIBC__
  void *frame[1];
  backtrace(frame, 1); /* loads what it needs now, while memory may be allocated */
#endif
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_crash;
  for (int i = 0; i < CRASH_SIGNALS; i++) sigaction(crash_signals[i], &action, NULL);
}
