#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fork-server.h"
#include "sys-fd.h"
#include "sys-fork.h"
#include "sys-message.h"
#include "sys-spawn.h"
#include "threads-share.h"

/* What runs in the fork server, and in its workers between two runs. */

static struct {
  int line;
  pid_t session;
  char *const *command; /* what starts a worker, NULL: it is forked */
  pid_t *workers;       /* forked and not collected */
  int count, capacity;
} server = {.line = -1};

static volatile sig_atomic_t told_to_end;
static void on_end(int number) {
  (void)number;
  told_to_end = 1;
}

/* Who has made the pair of sockets: the session. */
static pid_t peer_of(int line) {
#ifdef SO_PEERCRED
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(line, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) return peer.pid;
#else
  (void)line;
#endif
  return getppid();
}

/* The line with which rg_spawn() has started this program; -1: it has not. */
static int take_line(void) {
  int kind;
  socklen_t size = sizeof kind;
  if (getsockopt(RG_SPAWN_LINE, SOL_SOCKET, SO_TYPE, &kind, &size) < 0) return -1;
  int line = fcntl(RG_SPAWN_LINE, F_DUPFD_CLOEXEC, RG_SPAWN_LINE + 1);
  close(RG_SPAWN_LINE);
  return line;
}

/* The first thing that a server does: takes the line, and asks to end with the session. FALSE if the
   session has gone, or this process was not started as a server. */
SEXP ffi_fork_serve_begin(void) {
  server.line = take_line();
  if (server.line < 0) return Rf_ScalarLogical(FALSE);
  server.session = peer_of(server.line);
  return Rf_ScalarLogical(rg_process_die_with(server.session, SIGTERM) == 0);
}

/* Before it serves: bytes from the session, NULL if it has gone. */
SEXP ffi_fork_serve_receive(void) {
  int64_t size = 0;
  if (rg_message_receive(server.line, -1, &size, sizeof size, NULL, NULL, INT64_MAX) != RG_MESSAGE_OK) {
    return R_NilValue;
  }
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)size));
  rg_message_status got =
      rg_message_receive(server.line, -1, RAW(bytes), (size_t)size, NULL, NULL, INT64_MAX);
  UNPROTECT(1);
  return got == RG_MESSAGE_OK ? bytes : R_NilValue;
}

SEXP ffi_fork_serve_send(SEXP bytes) {
  int64_t size = (int64_t)XLENGTH(bytes);
  int sent = rg_message_send(server.line, -1, &size, sizeof size, NULL, 0, INT64_MAX) == 0 &&
             rg_message_send(server.line, -1, RAW_RO(bytes), (size_t)size, NULL, 0, INT64_MAX) == 0;
  return Rf_ScalarLogical(sent);
}

static int note_worker(void) {
  if (server.count < server.capacity) return 0;
  int capacity = server.capacity ? 2 * server.capacity : 64;
  pid_t *more = realloc(server.workers, (size_t)capacity * sizeof *more);
  if (!more) return -1;
  server.workers = more;
  server.capacity = capacity;
  return 0;
}

static void forget_worker(pid_t pid) {
  for (int i = 0; i < server.count; i++) {
    if (server.workers[i] == pid) server.workers[i--] = server.workers[--server.count];
  }
}

/* What a worker that is a program of its own is told by the environment: tag and server. */
static const char MEMBER[] = "REGATTA_MEMBER";

static pid_t start_worker(uint64_t tag, int line) {
  char text[64];
  snprintf(text, sizeof text, "%llx %d", (unsigned long long)tag, (int)getpid());
  if (setenv(MEMBER, text, 1) < 0) return -1;
  return rg_spawn(server.command, environ, line, STDERR_FILENO);
}

/* Signals are held back until the worker is on the books and, in the worker, its own are set. */
static void fork_worker(uint64_t tag, int line, rg_server_reply *reply, SEXP call, SEXP env) {
  sigset_t all, before;
  pid_t parent = getpid();
  if (line < 0 || note_worker() < 0) {
    reply->error = line < 0 ? EBADF : ENOMEM;
    return;
  }
  sigfillset(&all);
  rg_threads_share_settle();
  rg_process_flush_stdout();
  sigprocmask(SIG_SETMASK, &all, &before);
  pid_t pid = server.command ? start_worker(tag, line) : rg_fork_worker();
  if (pid == 0) {
    rg_fd_close(&server.line);
    sigdelset(&before, SIGTERM);
    sigdelset(&before, SIGINT); /* the server never lets it in */
    rg_fork_member_become(tag, line, parent, &before, 1);
    rg_fork_worker_run(call, env);
  }
  reply->error = pid < 0 ? errno : 0;
  if (pid > 0) {
    if (!server.command) setpgid(pid, pid);
    server.workers[server.count++] = pid;
    reply->pid = (int32_t)pid;
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
}

static int answer(SEXP call, SEXP env) {
  rg_server_request request;
  rg_server_reply reply = {0};
  int fds[RG_MESSAGE_FDS_MAX], count = 0;
  if (rg_message_receive(server.line, -1, &request, sizeof request, fds, &count, INT64_MAX) !=
      RG_MESSAGE_OK) {
    return -1;
  }
  if (request.verb == RG_SERVER_FORK) {
    fork_worker(request.tag, count > 0 ? fds[0] : -1, &reply, call, env);
  } else if (request.verb == RG_SERVER_COLLECT) {
    reply.ended = rg_process_collect((pid_t)request.pid, &reply.end);
    if (reply.ended) forget_worker((pid_t)request.pid);
  }
  for (int i = 0; i < count; i++) rg_fd_close(&fds[i]);
  return rg_message_send(server.line, -1, &reply, sizeof reply, NULL, 0, INT64_MAX);
}

static void end_workers(void) {
  rg_process_end end;
  for (int i = 0; i < server.count; i++) rg_process_kill_tree(server.workers[i]);
  for (int i = 0; i < server.count; i++) rg_process_collect_within(server.workers[i], 1000, &end);
  server.count = 0;
}

/* The server has nobody to answer for so long before it does something for workers of later. */
#define IDLE_NS 200000000L

/* Whether there is more to do. */
static int do_idle(SEXP idle, SEXP env) {
  int failed;
  SEXP more = R_tryEvalSilent(idle, env, &failed);
  return !failed && Rf_asLogical(more) == TRUE;
}

/* Forks workers, which evaluate `call` in `env`, or starts them by `command`, a path with arguments, until the
   session has gone. While it asks for nothing `idle` is evaluated, unless it is NULL, again as long as it is TRUE. */
SEXP ffi_fork_serve(SEXP call, SEXP idle, SEXP env, SEXP command) {
  struct sigaction action;
  sigset_t held, open;
  const R_xlen_t words = XLENGTH(command);
  if (words > 0) {
    char **list = (char **)R_alloc((size_t)words + 1, sizeof *list);
    for (R_xlen_t i = 0; i < words; i++) list[i] = (char *)CHAR(STRING_ELT(command, i));
    list[words] = NULL;
    server.command = list;
  }
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_end;
  sigaction(SIGTERM, &action, NULL);
  sigemptyset(&held);
  sigaddset(&held, SIGTERM);
  sigaddset(&held, SIGINT); /* the session's affair: what R has heard of it here each worker would inherit */
  sigprocmask(SIG_BLOCK, &held, &open);
  sigdelset(&open, SIGTERM);
  sigaddset(&open, SIGINT);
  const struct timespec pause = {0, IDLE_NS};
  int more = idle != R_NilValue;
  while (!told_to_end && getppid() == server.session) {
    fd_set ready;
    FD_ZERO(&ready);
    FD_SET(server.line, &ready);
    int n = pselect(server.line + 1, &ready, NULL, NULL, more ? &pause : NULL, &open);
    if (n > 0 && answer(call, env) < 0) break;
    if (n == 0) more = do_idle(idle, env);
    if (n < 0 && errno != EINTR) break;
  }
  end_workers();
  return R_NilValue;
}

/* In a worker: to the session. */
static void reply(const void *bytes, int64_t size) {
  int line = rg_fork_member_line();
  if (rg_message_send(line, -1, &size, sizeof size, NULL, 0, INT64_MAX) < 0 ||
      (size > 0 && rg_message_send(line, -1, bytes, (size_t)size, NULL, 0, INT64_MAX) < 0)) {
    rg_fork_member_leave_process();
  }
}

/* In a worker that is a program of its own. */

static struct {
  int line;
  pid_t server;
  uint64_t tag;
} member = {.line = -1};

/* The first thing that it does. FALSE if the server has gone, or this process was not started as a worker. */
SEXP ffi_fork_member_begin(void) {
  const char *told = getenv(MEMBER);
  unsigned long long tag;
  int pid;
  if (!told || sscanf(told, "%llx %d", &tag, &pid) != 2) return Rf_ScalarLogical(FALSE);
  member.tag = tag;
  member.server = (pid_t)pid;
  unsetenv(MEMBER);
  member.line = take_line();
  return Rf_ScalarLogical(member.line >= 0 && rg_process_die_with(member.server, SIGTERM) == 0);
}

/* From now on it is what a forked one is: says that it is ready, evaluates `call` and leaves. */
SEXP ffi_fork_member_main(SEXP call, SEXP env) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  rg_fork_member_become(member.tag, member.line, member.server, &before, 0);
  reply(NULL, 0);
  rg_fork_worker_run(call, env);
}

/* In a worker, between two runs. */

static SEXP member_call(int line, const rg_member_message *message) {
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)message->size));
  if (rg_message_receive(line, -1, RAW(bytes), (size_t)message->size, NULL, NULL, INT64_MAX) !=
      RG_MESSAGE_OK) {
    rg_fork_member_leave_process();
  }
  UNPROTECT(1);
  return bytes;
}

/* Waits for what the session wants next: list(verb, bytes), where the bytes are those of a call, or
   of the code of a run in which the worker takes part now. The session gone, so is the worker. */
SEXP ffi_fork_member_next(void) {
  rg_member_message message;
  int fds[RG_MESSAGE_FDS_MAX], count = 0, line = rg_fork_member_line();
  const char *names[] = {"verb", "bytes", ""};
  if (rg_message_receive(line, -1, &message, sizeof message, fds, &count, INT64_MAX) != RG_MESSAGE_OK) {
    rg_fork_member_leave_process();
  }
  SEXP next = PROTECT(Rf_mkNamed(VECSXP, names));
  if (message.verb == RG_MEMBER_RUN) {
    SET_VECTOR_ELT(next, 0, Rf_mkString("run"));
    SET_VECTOR_ELT(next, 1, rg_fork_member_join(&message, fds, count));
  } else {
    for (int i = 0; i < count; i++) rg_fd_close(&fds[i]);
    SET_VECTOR_ELT(next, 0, Rf_mkString("call"));
    SET_VECTOR_ELT(next, 1, member_call(line, &message));
  }
  UNPROTECT(1);
  return next;
}

SEXP ffi_fork_member_reply(SEXP bytes) {
  reply(RAW_RO(bytes), (int64_t)XLENGTH(bytes));
  return R_NilValue;
}
