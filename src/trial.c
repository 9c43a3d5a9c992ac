#include "trial.h"

#include <R_ext/Utils.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-interrupt.h"
#include "sys-message.h"
#include "sys-process.h"
#include "sys-spawn.h"

enum { BURIAL_MS = 5000, SLICE_NS = 200000000 };

extern char **environ;

/* The program of the process `owner`: a fork has a copy of this, and none of the program. */
static struct {
  pid_t owner, pid;
  int pidfd, line;
} program = {0, 0, -1, -1};

static void hang_up(void) {
  rg_fd_close(&program.line);
  rg_fd_close(&program.pidfd);
  program.pid = 0;
}

/* 0, or -1 with errno set. */
static int start(const char *path) {
  int failed = 0;
  int line[2], null = rg_fd_lift(open("/dev/null", O_WRONLY | O_CLOEXEC));
  char parent[32];
  snprintf(parent, sizeof parent, "%ld", (long)getpid());
  char *const arguments[] = {(char *)path, parent, NULL};
  if (null >= 0 && rg_message_pair(line) == 0) {
    program.pid = rg_spawn(arguments, environ, line[1], null);
    if (program.pid < 0) failed = errno;
    rg_fd_close(&line[1]);
    program.line = line[0];
    program.owner = getpid();
    if (failed) {
      hang_up();
    } else {
      program.pidfd = rg_process_pidfd(program.pid);
    }
  } else {
    failed = errno;
  }
  rg_fd_close(&null);
  errno = failed;
  return failed ? -1 : 0;
}

/* Ends it if it has not ended by itself. */
static rg_process_end bury(int by_itself) {
  rg_process_end end = {-1, -1, -1};
  rg_process_end killed;
  rg_interrupt_begin();
  const int ended = by_itself && rg_process_collect_within(program.pid, BURIAL_MS, &end);
  if (!ended) {
    kill(program.pid, SIGKILL);
    rg_process_collect_within(program.pid, BURIAL_MS, &killed);
  }
  hang_up();
  rg_interrupt_end();
  return end;
}

static int is_there(void) {
  if (program.pid > 0 && program.owner != getpid()) hang_up();
  if (program.pid > 0 && rg_process_has_ended(program.pid)) bury(1);
  return program.pid > 0;
}

typedef enum { ANSWERED, GONE, LATE, UNSTARTED } outcome;

static SEXP look_at_r(void *unused) {
  (void)unused;
  R_CheckUserInterrupt(); /* and limits of time */
  return R_NilValue;
}

static void give_up(void *unused, Rboolean jump) {
  (void)unused;
  if (jump) bury(0);
}

/* Its answer is one byte. R can jump out of this, and the program is ended then. */
static outcome ask(SEXP request, int64_t until, char *reply) {
  rg_interrupt_begin();
  const int sent =
      rg_message_send(program.line, program.pidfd, RAW(request), (size_t)XLENGTH(request), NULL, 0, until);
  int failed = sent < 0 ? errno : 0;
  rg_interrupt_end();
  while (!failed) {
    const int64_t slice = rg_clock_now() + SLICE_NS;
    rg_interrupt_begin();
    const rg_message_status status =
        rg_message_receive(program.line, program.pidfd, reply, 1, NULL, NULL, slice < until ? slice : until);
    if (status == RG_MESSAGE_ERROR && !(errno == EAGAIN && slice < until)) failed = errno;
    rg_interrupt_end();
    if (status == RG_MESSAGE_OK) return ANSWERED;
    if (status == RG_MESSAGE_END) return GONE;
    R_UnwindProtect(look_at_r, NULL, give_up, NULL, NULL);
  }
  return failed == EAGAIN ? LATE : GONE;
}

/* One that was there may have ended for another reason, so that only a new one is believed. */
static outcome ask_program(const char *path, SEXP request, int64_t until, char *reply, rg_process_end *end) {
  for (;;) {
    const int old = is_there();
    if (!old && start(path) < 0) return UNSTARTED;
    const outcome got = ask(request, until, reply);
    if (got == ANSWERED) return got;
    *end = bury(got == GONE);
    if (!old || got == LATE) return got;
  }
}

SEXP ffi_trial(SEXP path, SEXP request, SEXP seconds) {
  const char *names[] = {"signal", "status", "reason", ""};
  const double limit = Rf_asReal(seconds);
  const int64_t until = limit < 9e9 ? rg_clock_now() + (int64_t)(limit * 1e9) : INT64_MAX;
  rg_process_end end = {-1, -1, -1};
  char reply;
  R_CheckUserInterrupt();
  const outcome got = ask_program(CHAR(STRING_ELT(path, 0)), request, until, &reply, &end);
  const int failed = errno;
  R_CheckUserInterrupt();
  if (got == ANSWERED) return Rf_ScalarInteger(reply);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(end.signal < 0 ? NA_INTEGER : end.signal));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(end.status < 0 ? NA_INTEGER : end.status));
  if (got == UNSTARTED) SET_VECTOR_ELT(out, 2, Rf_mkString(strerror(failed)));
  UNPROTECT(1);
  return out;
}

SEXP ffi_trial_end(void) {
  rg_interrupt_begin();
  if (is_there()) {
    rg_fd_close(&program.line);
    bury(1);
  }
  rg_interrupt_end();
  return R_NilValue;
}
