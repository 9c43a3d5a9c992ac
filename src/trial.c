#include "trial.h"

#include <R_ext/Utils.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-interrupt.h"
#include "sys-message.h"
#include "sys-process.h"
#include "sys-spawn.h"

enum { BURIAL_MS = 5000 };

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

static int start(const char *path) {
  int line[2], null = rg_fd_lift(open("/dev/null", O_WRONLY | O_CLOEXEC));
  char parent[32];
  snprintf(parent, sizeof parent, "%ld", (long)getpid());
  char *const arguments[] = {(char *)path, parent, NULL};
  if (null >= 0 && rg_message_pair(line) == 0) {
    const pid_t pid = rg_spawn(arguments, environ, line[1], null);
    rg_fd_close(&line[1]);
    program.line = line[0];
    program.owner = getpid();
    program.pid = pid;
    if (pid > 0) program.pidfd = rg_process_pidfd(pid);
    if (pid <= 0) hang_up();
  }
  rg_fd_close(&null);
  return program.pid > 0;
}

typedef enum { ANSWERED, GONE, LATE } answer;

static answer ask(SEXP request, int64_t until) {
  char done;
  int sent = rg_message_send(program.line, program.pidfd, RAW(request), (size_t)XLENGTH(request), NULL, 0, until);
  if (sent == 0) {
    rg_message_status status = rg_message_receive(program.line, program.pidfd, &done, 1, NULL, NULL, until);
    if (status == RG_MESSAGE_OK) return ANSWERED;
    if (status == RG_MESSAGE_END) return GONE;
  }
  return errno == EAGAIN ? LATE : GONE;
}

/* Ends it if it has not ended by itself. */
static rg_process_end bury(int by_itself) {
  rg_process_end end = {-1, -1, -1};
  rg_process_end killed;
  const int ended = by_itself && rg_process_collect_within(program.pid, BURIAL_MS, &end);
  if (!ended) {
    kill(program.pid, SIGKILL);
    rg_process_collect_within(program.pid, BURIAL_MS, &killed);
  }
  hang_up();
  return end;
}

static int is_there(void) {
  if (program.pid > 0 && program.owner != getpid()) hang_up();
  if (program.pid > 0 && rg_process_has_ended(program.pid)) bury(1);
  return program.pid > 0;
}

/* One that was there may have ended for another reason, so that only a new one is believed. */
static answer ask_program(const char *path, SEXP request, int64_t until, rg_process_end *end) {
  for (;;) {
    const int old = is_there();
    if (!old && !start(path)) return ANSWERED;
    const answer got = ask(request, until);
    if (got == ANSWERED) return got;
    *end = bury(got == GONE);
    if (!old || got == LATE) return got;
  }
}

SEXP ffi_trial(SEXP path, SEXP request, SEXP seconds) {
  const char *names[] = {"signal", "status", ""};
  const double limit = Rf_asReal(seconds);
  const int64_t until = limit < 9e9 ? rg_clock_now() + (int64_t)(limit * 1e9) : INT64_MAX;
  rg_process_end end;
  R_CheckUserInterrupt();
  rg_interrupt_begin();
  const answer got = ask_program(CHAR(STRING_ELT(path, 0)), request, until, &end);
  rg_interrupt_end();
  R_CheckUserInterrupt();
  if (got == ANSWERED) return R_NilValue;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(end.signal < 0 ? NA_INTEGER : end.signal));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(end.status < 0 ? NA_INTEGER : end.status));
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
