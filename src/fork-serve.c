#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
  pid_t *workers; /* forked and not collected */
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

/* The first thing that a server does: takes the line, and asks to end with the session. FALSE if the
   session has gone, or this process was not started as a server. */
SEXP ffi_fork_serve_begin(void) {
  int kind;
  socklen_t size = sizeof kind;
  if (getsockopt(RG_SPAWN_LINE, SOL_SOCKET, SO_TYPE, &kind, &size) < 0) {
    return Rf_ScalarLogical(FALSE);
  }
  server.session = peer_of(RG_SPAWN_LINE);
  server.line = fcntl(RG_SPAWN_LINE, F_DUPFD_CLOEXEC, RG_SPAWN_LINE + 1);
  close(RG_SPAWN_LINE);
  return Rf_ScalarLogical(server.line >= 0 && rg_process_die_with(server.session, SIGTERM) == 0);
}

/* Before it serves: bytes from the session, NULL if it has gone. */
SEXP ffi_fork_serve_receive(void) {
  int64_t size = 0;
  if (rg_message_receive(server.line, &size, sizeof size, NULL, NULL, INT64_MAX) != RG_MESSAGE_OK) {
    return R_NilValue;
  }
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)size));
  rg_message_status got =
      rg_message_receive(server.line, RAW(bytes), (size_t)size, NULL, NULL, INT64_MAX);
  UNPROTECT(1);
  return got == RG_MESSAGE_OK ? bytes : R_NilValue;
}

SEXP ffi_fork_serve_send(SEXP bytes) {
  int64_t size = (int64_t)XLENGTH(bytes);
  int sent = rg_message_send(server.line, &size, sizeof size, NULL, 0, INT64_MAX) == 0 &&
             rg_message_send(server.line, RAW_RO(bytes), (size_t)size, NULL, 0, INT64_MAX) == 0;
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
  pid_t pid = rg_fork_worker();
  if (pid == 0) {
    rg_fd_close(&server.line);
    sigdelset(&before, SIGTERM);
    sigdelset(&before, SIGINT); /* the server's sleep alone lets it in */
    rg_fork_member_become(tag, line, parent, &before);
    rg_fork_worker_run(call, env);
  }
  reply->error = pid < 0 ? errno : 0;
  if (pid > 0) {
    setpgid(pid, pid);
    server.workers[server.count++] = pid;
    reply->pid = (int32_t)pid;
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
}

static int answer(SEXP call, SEXP env) {
  rg_server_request request;
  rg_server_reply reply = {0};
  int fds[RG_MESSAGE_FDS_MAX], count = 0;
  if (rg_message_receive(server.line, &request, sizeof request, fds, &count, INT64_MAX) !=
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
  return rg_message_send(server.line, &reply, sizeof reply, NULL, 0, INT64_MAX);
}

static void end_workers(void) {
  rg_process_end end;
  for (int i = 0; i < server.count; i++) rg_process_kill_tree(server.workers[i]);
  for (int i = 0; i < server.count; i++) rg_process_collect_within(server.workers[i], 1000, &end);
  server.count = 0;
}

/* Forks workers, which evaluate `call` in `env`, until the session has gone. */
SEXP ffi_fork_serve(SEXP call, SEXP env) {
  struct sigaction action;
  sigset_t held, open;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_end;
  sigaction(SIGTERM, &action, NULL);
  sigemptyset(&held);
  sigaddset(&held, SIGTERM);
  sigaddset(&held, SIGINT); /* the session's affair */
  sigprocmask(SIG_BLOCK, &held, &open);
  sigdelset(&open, SIGTERM);
  while (!told_to_end && getppid() == server.session) {
    fd_set ready;
    FD_ZERO(&ready);
    FD_SET(server.line, &ready);
    int n = pselect(server.line + 1, &ready, NULL, NULL, NULL, &open);
    if (n > 0 && answer(call, env) < 0) break;
    if (n < 0 && errno != EINTR) break;
  }
  end_workers();
  return R_NilValue;
}

/* In a worker, between two runs. */

static SEXP member_call(int line, const rg_member_message *message) {
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)message->size));
  if (rg_message_receive(line, RAW(bytes), (size_t)message->size, NULL, NULL, INT64_MAX) !=
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
  if (rg_message_receive(line, &message, sizeof message, fds, &count, INT64_MAX) != RG_MESSAGE_OK) {
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
  int64_t size = (int64_t)XLENGTH(bytes);
  int line = rg_fork_member_line();
  if (rg_message_send(line, &size, sizeof size, NULL, 0, INT64_MAX) < 0 ||
      rg_message_send(line, RAW_RO(bytes), (size_t)size, NULL, 0, INT64_MAX) < 0) {
    rg_fork_member_leave_process();
  }
  return R_NilValue;
}
