#include "fork-server.h"

#include <R_ext/Utils.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-interrupt.h"
#include "sys-layout.h"
#include "sys-message.h"
#include "sys-random.h"
#include "sys-spawn.h"

RG_LAYOUT_SIZE(rg_server_request, 16);
RG_LAYOUT(rg_server_request, verb, 0, 4);
RG_LAYOUT(rg_server_request, pid, 4, 4);
RG_LAYOUT(rg_server_request, tag, 8, 8);

RG_LAYOUT_SIZE(rg_server_reply, 32);
RG_LAYOUT(rg_server_reply, pid, 0, 4);
RG_LAYOUT(rg_server_reply, error, 4, 4);
RG_LAYOUT(rg_server_reply, ended, 8, 4);
RG_LAYOUT(rg_server_reply, end, 16, 16);

RG_LAYOUT_SIZE(rg_member_message, 80);
RG_LAYOUT(rg_member_message, verb, 0, 4);
RG_LAYOUT(rg_member_message, place, 4, 4);
RG_LAYOUT(rg_member_message, size, 8, 8);
RG_LAYOUT(rg_member_message, elements, 16, 8);
RG_LAYOUT(rg_member_message, batch, 24, 8);
RG_LAYOUT(rg_member_message, share_from, 32, 8);
RG_LAYOUT(rg_member_message, limit, 40, 8);
RG_LAYOUT(rg_member_message, workers, 48, 4);
RG_LAYOUT(rg_member_message, wants_cpu, 52, 4);
RG_LAYOUT(rg_member_message, cores, 56, 4);
RG_LAYOUT(rg_member_message, low, 60, 4);
RG_LAYOUT(rg_member_message, files, 64, 4);
RG_LAYOUT(rg_member_message, owner, 68, 4);
RG_LAYOUT(rg_member_message, arena_tag, 72, 8);

/* The session's side of fork servers and of the workers that stand ready. Whatever waits for them listens
   to Ctrl-C (sys-interrupt.h): who does not answer then is given up. */

static rg_server *servers;
static rg_stand *stands;

static const int64_t SECOND = (int64_t)1000000000;
/* Within this time a server that is alive forks or collects a worker: only one that is stopped, or a
   machine that does nothing any more, takes longer. */
static const int64_t ANSWER_SECONDS = 20;
static const int64_t END_MS = 3000;

/* Before rg_interrupt_end(): waits hear what comes from now on, so R looks for what it has heard before. */
static void listen_to_interrupts(void) {
  R_CheckUserInterrupt();
  rg_interrupt_begin();
}

/* Servers. */

static rg_server *borrow_server(SEXP pointer) {
  rg_server *server = R_ExternalPtrAddr(pointer);
  if (!server || server->owner != getpid()) Rf_error("this fork server is not of this process");
  return server;
}

static int has_ended(pid_t pid, int pidfd) {
  if (pid <= 0) return 1;
  if (pidfd < 0) return 0; /* its line tells */
  struct pollfd ended = {pidfd, POLLIN, 0};
  return poll(&ended, 1, 0) == 1;
}

static void end_server(rg_server *server, int at_once) {
  rg_process_end end;
  rg_fd_close(&server->line); /* it ends its workers, and itself */
  if (server->pid <= 0) return;
  rg_interrupt_begin();
  if (at_once || !rg_process_collect_within(server->pid, END_MS, &end)) {
    rg_process_kill_tree(server->pid);
    rg_process_collect_within(server->pid, END_MS, &end);
  }
  rg_fd_close(&server->pidfd);
  server->pid = 0;
  rg_interrupt_end();
}

static void drop_server(rg_server *server) {
  if (--server->holders > 0) return;
  rg_server **link = &servers;
  while (*link && *link != server) link = &(*link)->next;
  if (*link) *link = server->next;
  if (server->owner == getpid()) end_server(server, 0);
  rg_fd_close(&server->log);
  free(server);
}

static void server_finalize(SEXP pointer) {
  rg_server *server = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  if (server) drop_server(server);
}

static char *const *text_list(SEXP texts) {
  R_xlen_t count = XLENGTH(texts);
  char **list = (char **)R_alloc((size_t)count + 1, sizeof *list);
  for (R_xlen_t i = 0; i < count; i++) list[i] = (char *)CHAR(STRING_ELT(texts, i));
  list[count] = NULL;
  return list;
}

static rg_server *new_server(char *const *arguments, char *const *environment) {
  int line[2];
  rg_server *server = calloc(1, sizeof *server);
  if (!server) return NULL;
  server->owner = getpid();
  server->pidfd = server->line = -1;
  server->log = rg_fd_memory("regatta-log");
  if (server->log >= 0 && rg_message_pair(line) == 0) {
    server->pid = rg_spawn(arguments, environment, line[1], server->log);
    int saved = errno;
    rg_fd_close(&line[1]);
    server->line = line[0];
    if (server->pid > 0) {
      server->pidfd = rg_process_pidfd(server->pid);
      server->next = servers;
      return servers = server;
    }
    rg_fd_close(&server->line);
    errno = saved;
  }
  int saved = errno;
  rg_fd_close(&server->log);
  free(server);
  errno = saved;
  return NULL;
}

/* Starts the program; an external pointer, or an errno. */
SEXP ffi_fork_server_start(SEXP arguments, SEXP environment, SEXP greets) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, server_finalize, TRUE);
  rg_server *server = new_server(text_list(arguments), text_list(environment));
  int failed = server ? 0 : errno;
  if (server) {
    server->holders = 1;
    server->greets = Rf_asLogical(greets);
    R_SetExternalPtrAddr(pointer, server);
  }
  UNPROTECT(1);
  return failed ? Rf_ScalarInteger(failed) : pointer;
}

/* Of a message that is sent or received in part nobody knows the rest: whoever sees it fail, or leaves it by
   an interrupt, ends the other side. */

SEXP ffi_fork_server_send(SEXP pointer, SEXP bytes) {
  rg_server *server = borrow_server(pointer);
  int64_t size = (int64_t)XLENGTH(bytes), until = rg_clock_now() + ANSWER_SECONDS * SECOND;
  listen_to_interrupts();
  int sent = rg_message_send(server->line, server->pidfd, &size, sizeof size, NULL, 0, until) == 0 &&
             rg_message_send(server->line, server->pidfd, RAW_RO(bytes), (size_t)size, NULL, 0, until) == 0;
  rg_interrupt_end();
  R_CheckUserInterrupt();
  return Rf_ScalarLogical(sent);
}

static rg_message_status receive(int line, int pidfd, void *bytes, size_t size, int64_t until) {
  rg_interrupt_begin();
  rg_message_status got = rg_message_receive(line, pidfd, bytes, size, NULL, NULL, until);
  rg_interrupt_end();
  return got;
}

static int is_readable(int fd, int ms) {
  struct pollfd waited = {fd, POLLIN, 0};
  return poll(&waited, 1, ms) > 0;
}

/* What the server has sent before it serves: bytes, NULL if nothing comes in `timeout` seconds, FALSE
   if it is gone. */
SEXP ffi_fork_server_receive(SEXP pointer, SEXP timeout) {
  rg_server *server = borrow_server(pointer);
  int64_t size = 0, until = rg_clock_now() + (int64_t)(Rf_asReal(timeout) * 1e9);
  while (!is_readable(server->line, 100)) {
    R_CheckUserInterrupt();
    if (has_ended(server->pid, server->pidfd) && !is_readable(server->line, 0)) return Rf_ScalarLogical(FALSE);
    if (rg_clock_now() >= until) return R_NilValue;
  }
  until = rg_clock_now() + ANSWER_SECONDS * SECOND;
  rg_message_status got = receive(server->line, server->pidfd, &size, sizeof size, until);
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)(got == RG_MESSAGE_OK ? size : 0)));
  if (got == RG_MESSAGE_OK) got = receive(server->line, server->pidfd, RAW(bytes), (size_t)size, until);
  R_CheckUserInterrupt(); /* which may run R code */
  UNPROTECT(1);
  return got == RG_MESSAGE_OK ? bytes : Rf_ScalarLogical(FALSE);
}

static SEXP log_of(const rg_server *server) {
  enum { MOST = 4000 };
  char text[MOST];
  off_t size = lseek(server->log, 0, SEEK_END);
  off_t from = size > MOST ? size - MOST : 0;
  ssize_t n = pread(server->log, text, MOST, from);
  return Rf_ScalarString(n > 0 ? Rf_mkCharLenCE(text, (int)strnlen(text, (size_t)n), CE_NATIVE)
                               : R_BlankString);
}

/* list(pid, alive, log: the end of what it has written) */
SEXP ffi_fork_server_state(SEXP pointer) {
  const char *names[] = {"pid", "alive", "log", ""};
  rg_server *server = R_ExternalPtrAddr(pointer);
  if (server && server->owner != getpid()) server = NULL;
  SEXP state = PROTECT(Rf_mkNamed(VECSXP, names));
  int alive = server && server->line >= 0 && !has_ended(server->pid, server->pidfd);
  SET_VECTOR_ELT(state, 0, Rf_ScalarInteger(server ? (int)server->pid : 0));
  SET_VECTOR_ELT(state, 1, Rf_ScalarLogical(alive));
  SET_VECTOR_ELT(state, 2, server ? log_of(server) : Rf_mkString(""));
  UNPROTECT(1);
  return state;
}

SEXP ffi_fork_server_stop(SEXP pointer) {
  rg_server *server = R_ExternalPtrAddr(pointer);
  if (server && server->owner == getpid()) {
    end_server(server, 0);
    rg_fd_close(&server->log);
  }
  return R_NilValue;
}

/* Each request has one reply, and they come in the same order. 0, or -1: the server does not answer, and is
   given up. */
static int request(rg_server *server, const rg_server_request *what, int line) {
  int64_t until = rg_clock_now() + ANSWER_SECONDS * SECOND;
  if (server->line >= 0 &&
      rg_message_send(server->line, server->pidfd, what, sizeof *what, &line, line >= 0, until) == 0) {
    return 0;
  }
  end_server(server, 1);
  return -1;
}

static int reply_of(rg_server *server, rg_server_reply *reply) {
  int64_t until = rg_clock_now() + ANSWER_SECONDS * SECOND;
  if (server->line >= 0 &&
      rg_message_receive(server->line, server->pidfd, reply, sizeof *reply, NULL, NULL, until) == RG_MESSAGE_OK) {
    return 0;
  }
  end_server(server, 1);
  return -1;
}

/* Stands. */

rg_stand *rg_stand_borrow(SEXP pointer) {
  rg_stand *stand = R_ExternalPtrAddr(pointer);
  if (!stand || stand->owner != getpid() || stand->stopped) {
    Rf_error("these workers have been stopped, or are another process's");
  }
  return stand;
}

void rg_stand_hold(rg_stand *stand) { stand->holders++; }

static const rg_member no_worker = {.pidfd = -1, .line = -1};

void rg_stand_forget(rg_stand *stand, int m) {
  rg_member *member = &stand->members[m];
  const int lost = member->lost || member->called;
  rg_fd_close(&member->line);
  rg_fd_close(&member->pidfd);
  *member = no_worker;
  member->lost = lost;
}

int rg_stand_collect(rg_stand *stand, int m, rg_process_end *end) {
  rg_member *member = &stand->members[m];
  const rg_server_request what = {RG_SERVER_COLLECT, (int32_t)member->pid, 0};
  rg_server_reply reply;
  *end = (rg_process_end){-1, -1, -1};
  if (request(stand->server, &what, -1) < 0 || reply_of(stand->server, &reply) < 0) {
    /* Nobody is left who could tell how it ended. */
    if (!has_ended(member->pid, member->pidfd) && member->pidfd >= 0) return 0;
    return 1;
  }
  if (reply.ended) *end = reply.end;
  return reply.ended;
}

static int collect_within(rg_stand *stand, int m, int64_t until, rg_process_end *end) {
  const int pidfd = stand->members[m].pidfd;
  const int64_t since = rg_clock_now();
  for (;;) {
    int64_t left = (rg_interrupt_limit(until, since) - rg_clock_now()) / 1000000;
    struct pollfd waited = {pidfd, POLLIN, 0};
    int ended = poll(&waited, pidfd >= 0, pidfd < 0 ? 1 : left > 0 ? rg_interrupt_slice(left) : 0);
    if (pidfd >= 0 && ended <= 0 && left > 0) continue;
    if (rg_stand_collect(stand, m, end)) return 1;
    if (left <= 0) return 0;
  }
}

int rg_stand_bury(rg_stand *stand, int m, int64_t until, rg_process_end *end) {
  int ended = collect_within(stand, m, until, end);
  rg_stand_forget(stand, m);
  return ended;
}

/* As of a forked worker: one between two elements that has no children can start none any more. */
static void end_member(rg_stand *stand, int m, int64_t until) {
  rg_process_end end;
  char mark[RG_FORK_MARK_SIZE];
  pid_t pid = stand->members[m].pid;
  int died = has_ended(pid, stand->members[m].pidfd);
  rg_fork_mark(stand->tag, pid, mark);
  collect_within(stand, m, until, &end);
  if (died) rg_process_kill_marked(RG_FORK_MARK, mark);
  rg_stand_forget(stand, m);
}

static void stop_stand(rg_stand *stand) {
  if (stand->stopped || stand->owner != getpid()) return;
  stand->stopped = 1;
  rg_interrupt_begin();
  for (int m = 0; m < stand->size; m++) {
    pid_t pid = stand->members[m].pid;
    if (pid <= 0 || stand->members[m].run) continue;
    if (rg_process_has_children(pid)) {
      rg_process_kill_tree(pid);
    } else {
      rg_process_kill_group(pid);
    }
  }
  int64_t until = rg_clock_now() + END_MS * 1000000;
  for (int m = 0; m < stand->size; m++) {
    /* One that takes part in a run is ended with that. */
    if (stand->members[m].pid > 0 && !stand->members[m].run) end_member(stand, m, until);
  }
  rg_interrupt_end();
}

void rg_stand_drop(rg_stand *stand) {
  if (--stand->holders > 0) return;
  stop_stand(stand);
  rg_stand **link = &stands;
  while (*link && *link != stand) link = &(*link)->next;
  if (*link) *link = stand->next;
  for (int m = 0; m < stand->size; m++) rg_stand_forget(stand, m);
  drop_server(stand->server);
  free(stand->members);
  free(stand);
}

static void stand_finalize(SEXP pointer) {
  rg_stand *stand = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  if (!stand) return;
  stop_stand(stand);
  rg_stand_drop(stand);
}

SEXP ffi_fork_stand_new(SEXP server_pointer, SEXP size) {
  rg_server *server = borrow_server(server_pointer);
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, stand_finalize, TRUE);
  rg_stand *stand = calloc(1, sizeof *stand);
  rg_member *members = calloc((size_t)Rf_asInteger(size), sizeof *members);
  if (!stand || !members) {
    free(stand);
    free(members);
    Rf_error("no memory is left");
  }
  stand->owner = getpid();
  stand->tag = rg_random_tag();
  stand->size = Rf_asInteger(size);
  stand->members = members;
  for (int m = 0; m < stand->size; m++) members[m] = no_worker;
  stand->server = server;
  server->holders++;
  stand->holders = 1;
  stand->next = stands;
  stands = stand;
  R_SetExternalPtrAddr(pointer, stand);
  UNPROTECT(1);
  return pointer;
}

/* From now on another server forks the workers: the one before has ended, and they with it. */
SEXP ffi_fork_stand_renew(SEXP pointer, SEXP server_pointer) {
  rg_stand *stand = rg_stand_borrow(pointer);
  rg_server *server = borrow_server(server_pointer);
  for (int m = 0; m < stand->size; m++) {
    if (stand->members[m].pid > 0 && !stand->members[m].run) rg_stand_forget(stand, m);
  }
  server->holders++;
  drop_server(stand->server);
  stand->server = server;
  return R_NilValue;
}

/* A worker for a member is asked for, whose line to the session is opened: 0, or an errno. */
static int ask_for_worker(rg_stand *stand, int m) {
  const rg_server_request what = {RG_SERVER_FORK, 0, stand->tag};
  int line[2];
  if (rg_message_pair(line) < 0) return errno;
  int failed = request(stand->server, &what, line[1]) < 0 ? ESRCH : 0;
  rg_fd_close(&line[1]);
  if (failed) rg_fd_close(&line[0]);
  stand->members[m].line = line[0];
  return failed;
}

static int take_worker(rg_stand *stand, int m) {
  rg_server_reply reply = {0};
  int failed = reply_of(stand->server, &reply) < 0 ? ESRCH : reply.error;
  if (failed || reply.pid <= 0) {
    rg_stand_forget(stand, m);
    return failed ? failed : EAGAIN;
  }
  stand->members[m].pid = reply.pid;
  stand->members[m].pidfd = rg_process_pidfd(reply.pid);
  stand->members[m].starting = stand->server->greets ? RG_MEMBER_STARTING : RG_MEMBER_STARTED;
  return 0;
}

/* A worker that has ended while it had nothing to do is replaced without a word. */
static int lacks_worker(rg_stand *stand, int m) {
  rg_member *member = &stand->members[m];
  if (member->pid > 0 && !member->run && has_ended(member->pid, member->pidfd)) {
    end_member(stand, m, rg_clock_now() + END_MS * 1000000);
  }
  return member->pid <= 0;
}

static int ready_member(rg_stand *stand, int m) {
  if (!lacks_worker(stand, m)) return 0;
  int failed = ask_for_worker(stand, m);
  return failed ? failed : take_worker(stand, m);
}

int rg_stand_is_starting(rg_stand *stand, int m) {
  rg_member *member = &stand->members[m];
  int64_t size;
  if (member->starting == RG_MEMBER_STARTING && is_readable(member->line, 0)) {
    rg_message_status got =
        receive(member->line, member->pidfd, &size, sizeof size, rg_clock_now() + ANSWER_SECONDS * SECOND);
    member->starting = got == RG_MESSAGE_OK ? RG_MEMBER_STARTED : RG_MEMBER_FAILED;
  }
  return member->starting != RG_MEMBER_STARTED;
}

static int is_free(const rg_stand *stand, int m) {
  return m >= 0 && m < stand->size && !stand->members[m].run && stand->members[m].calls == 0;
}

static int is_ready(rg_stand *stand, int m) {
  const rg_member *member = &stand->members[m];
  return member->pid > 0 && !has_ended(member->pid, member->pidfd) && !rg_stand_is_starting(stand, m);
}

/* First those that are ready, then those that are to be replaced or are starting, who come to the run when they
   are. */
int rg_stand_take(rg_stand *stand, const int *numbers, int count) {
  int m = -1;
  for (int i = 0; i < count && m < 0; i++) {
    int n = numbers[i] - 1;
    if (is_free(stand, n) && is_ready(stand, n)) m = n;
  }
  for (int i = 0; i < count && m < 0; i++) {
    if (is_free(stand, numbers[i] - 1)) m = numbers[i] - 1;
  }
  errno = m < 0 ? EBUSY : ready_member(stand, m);
  return errno ? -1 : m;
}

/* So many requests are on their way at a time: the server forks while the session asks, and neither fills
   what the line can hold. */
enum { REQUESTS_MOST = 32 };

/* Sees to it that each of the first `count` members has a worker: 0, or an errno. */
SEXP ffi_fork_stand_fill(SEXP pointer, SEXP count_number) {
  rg_stand *stand = rg_stand_borrow(pointer);
  const int size = Rf_asInteger(count_number) < stand->size ? Rf_asInteger(count_number) : stand->size;
  int asked[REQUESTS_MOST], failed = 0;
  listen_to_interrupts();
  for (int m = 0; m < size; m++) lacks_worker(stand, m); /* what has ended is collected */
  for (int m = 0; m < size && !failed;) {
    int count = 0;
    for (; m < size && !failed && count < REQUESTS_MOST; m++) {
      if (stand->members[m].pid > 0) continue;
      failed = ask_for_worker(stand, m);
      if (!failed) asked[count++] = m;
    }
    for (int i = 0; i < count; i++) {
      int error = take_worker(stand, asked[i]);
      if (!failed) failed = error;
    }
  }
  rg_interrupt_end();
  R_CheckUserInterrupt();
  return Rf_ScalarInteger(failed);
}

/* Waits until no worker of the stand is starting any more, or `timeout` seconds are over. One that has ended
   instead has none as its pid. */
SEXP ffi_fork_stand_await(SEXP pointer, SEXP timeout) {
  rg_stand *stand = rg_stand_borrow(pointer);
  const double seconds = Rf_asReal(timeout);
  const int64_t until = seconds < 9e9 ? rg_clock_now() + (int64_t)(seconds * 1e9) : INT64_MAX;
  struct pollfd *lines = (struct pollfd *)R_alloc((size_t)stand->size, sizeof *lines);
  for (;;) {
    int count = 0;
    for (int m = 0; m < stand->size; m++) {
      const rg_member *member = &stand->members[m];
      if (member->pid <= 0 || has_ended(member->pid, member->pidfd)) continue;
      if (!rg_stand_is_starting(stand, m)) continue;
      int is_failing = member->starting == RG_MEMBER_FAILED; /* its line says so for ever */
      lines[count++] = (struct pollfd){is_failing ? member->pidfd : member->line, POLLIN, 0};
    }
    const int64_t left = (until - rg_clock_now()) / 1000000;
    if (count == 0 || left <= 0) return R_NilValue;
    poll(lines, (nfds_t)count, left < 200 ? (int)left : 200);
    R_CheckUserInterrupt();
  }
}

/* What the worker does of the run that it takes part in; NULL: of none. */
static const rg_slot *slot_of(const rg_member *member, int m) {
  const rg_pool *pool = member->run;
  for (int w = 0; pool && w < pool->size; w++) {
    if (pool->workers[w].pid > 0 && pool->workers[w].member == m) return &pool->control->slots[w];
  }
  return NULL;
}

static const char *call_of(const rg_member *member) {
  const rg_pool *pool = member->run;
  return member->calls > 0 ? "parallel" : pool ? pool->verb : "";
}

/* list(pid (0: none now), busy, calls that have not been answered, starting, since (clock), what it is called for,
   active (it does not wait for anything to do), number of the element that runs and for how long (NA: none)) */
SEXP ffi_fork_stand_members(SEXP pointer) {
  const char *names[] = {"pid", "busy", "calls", "starting", "since", "call", "active", "element", "seconds", ""};
  rg_stand *stand = R_ExternalPtrAddr(pointer);
  int size = stand && stand->owner == getpid() ? stand->size : 0;
  SEXP members = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP pid = SET_VECTOR_ELT(members, 0, Rf_allocVector(INTSXP, size));
  SEXP busy = SET_VECTOR_ELT(members, 1, Rf_allocVector(LGLSXP, size));
  SEXP calls = SET_VECTOR_ELT(members, 2, Rf_allocVector(REALSXP, size));
  SEXP starting = SET_VECTOR_ELT(members, 3, Rf_allocVector(LGLSXP, size));
  SEXP since = SET_VECTOR_ELT(members, 4, Rf_allocVector(REALSXP, size));
  SEXP call = SET_VECTOR_ELT(members, 5, Rf_allocVector(STRSXP, size));
  SEXP active = SET_VECTOR_ELT(members, 6, Rf_allocVector(LGLSXP, size));
  SEXP element = SET_VECTOR_ELT(members, 7, Rf_allocVector(REALSXP, size));
  SEXP seconds = SET_VECTOR_ELT(members, 8, Rf_allocVector(REALSXP, size));
  for (int m = 0; m < size; m++) {
    const rg_member *member = &stand->members[m];
    const rg_slot *slot = slot_of(member, m);
    int64_t current = slot ? atomic_load(&slot->current) : -1;
    SET_STRING_ELT(call, m, Rf_mkChar(call_of(member)));
    LOGICAL(active)[m] = member->calls > 0 || (slot && !atomic_load(&slot->waiting));
    REAL(element)[m] = current < 0 ? NA_REAL : (double)(current + 1);
    REAL(seconds)[m] = current < 0 ? NA_REAL : (double)(rg_clock_now() - atomic_load(&slot->started)) / 1e9;
    REAL(calls)[m] = (double)member->calls;
    LOGICAL(starting)[m] = rg_stand_is_starting(stand, m);
    INTEGER(pid)[m] = has_ended(member->pid, member->pidfd) ? 0 : (int)member->pid;
    LOGICAL(busy)[m] = member->run != NULL || member->calls > 0;
    REAL(since)[m] = (double)member->since / 1e9;
  }
  UNPROTECT(1);
  return members;
}

/* Half a message leaves a line that is of no use: its worker goes with it. */
void rg_stand_give_up(rg_stand *stand, int m) {
  rg_process_kill_tree(stand->members[m].pid);
  end_member(stand, m, rg_clock_now() + END_MS * 1000000);
}

/* Ends the worker of a member, of which the caller tells; another is forked when it is needed. */
SEXP ffi_fork_stand_replace(SEXP pointer, SEXP number) {
  rg_stand *stand = rg_stand_borrow(pointer);
  int m = Rf_asInteger(number) - 1;
  rg_interrupt_begin();
  if (stand->members[m].pid > 0 && !stand->members[m].run) {
    rg_stand_give_up(stand, m);
    stand->members[m].lost = 0;
  }
  rg_interrupt_end();
  return R_NilValue;
}

/* In the place of an errno. */
enum {
  WORKER_LOST = -1,  /* what calls had left in a worker has gone with it, and nobody was told */
  WORKER_ENDED = -2, /* while the call was on its way to it */
};

/* For as long as it takes: a worker that is at another call reads this one when it has done with that. */
static int send_call(rg_stand *stand, int m, const void *bytes, int64_t size) {
  rg_member_message message = {.verb = RG_MEMBER_CALL, .size = size};
  if (stand->members[m].run) return EBUSY;
  int failed = ready_member(stand, m);
  if (failed) return failed;
  if (stand->members[m].lost) {
    stand->members[m].lost = 0;
    return WORKER_LOST;
  }
  const int line = stand->members[m].line, pidfd = stand->members[m].pidfd;
  if (rg_message_send(line, pidfd, &message, sizeof message, NULL, 0, INT64_MAX) < 0 ||
      rg_message_send(line, pidfd, bytes, (size_t)size, NULL, 0, INT64_MAX) < 0) {
    rg_stand_give_up(stand, m);
    return WORKER_ENDED;
  }
  if (stand->members[m].calls++ == 0) stand->members[m].since = rg_clock_now();
  return 0;
}

/* A call for the worker, which answers it with ffi_fork_member_reply(): an errno, 0 if it was sent.
   WORKER_LOST, once, if the worker that was called last has ended: another is ready. */
SEXP ffi_fork_stand_send(SEXP pointer, SEXP number, SEXP bytes) {
  rg_stand *stand = rg_stand_borrow(pointer);
  listen_to_interrupts();
  int failed = send_call(stand, Rf_asInteger(number) - 1, RAW_RO(bytes), (int64_t)XLENGTH(bytes));
  rg_interrupt_end();
  R_CheckUserInterrupt();
  return Rf_ScalarInteger(failed);
}

/* Which of these members has a reply to be read, or a worker that has ended without one; -1 for none in `ms`. Where a
   process that the worker has forked holds its line, nobody but its pidfd tells that it has ended. */
static int await_reply(rg_stand *stand, const int *numbers, int count, struct pollfd *waits, int ms) {
  for (int i = 0; i < count; i++) {
    const rg_member *member = &stand->members[numbers[i] - 1];
    waits[i] = (struct pollfd){member->calls > 0 ? member->line : -1, POLLIN, 0};
    waits[count + i] = (struct pollfd){member->calls > 0 ? member->pidfd : -1, POLLIN, 0};
  }
  if (poll(waits, 2 * (nfds_t)count, ms) <= 0) return -1;
  for (int i = 0; i < count; i++) {
    if (!waits[i].revents) continue;
    const int m = numbers[i] - 1, was = stand->members[m].starting;
    rg_stand_is_starting(stand, m); /* what it says first is no reply */
    if (was != RG_MEMBER_STARTING || stand->members[m].starting == RG_MEMBER_FAILED) return i;
  }
  for (int i = 0; i < count; i++) {
    if (waits[count + i].revents && !waits[i].revents) return i;
  }
  return -1;
}

static int has_calls(const rg_stand *stand, const int *numbers, int count) {
  for (int i = 0; i < count; i++) {
    if (stand->members[numbers[i] - 1].calls > 0) return 1;
  }
  return 0;
}

/* The reply of the first of these members that has sent one: list(number, bytes), with NULL for the
   bytes if its worker has ended; NULL if there is none in `timeout` seconds, or none has a call to answer. */
SEXP ffi_fork_stand_receive(SEXP pointer, SEXP numbers, SEXP timeout) {
  rg_stand *stand = rg_stand_borrow(pointer);
  const int count = (int)XLENGTH(numbers);
  struct pollfd *waits = (struct pollfd *)R_alloc(2 * (size_t)count, sizeof *waits);
  double seconds = Rf_asReal(timeout);
  int64_t until = seconds < 9e9 ? rg_clock_now() + (int64_t)(seconds * 1e9) : INT64_MAX;
  if (!has_calls(stand, INTEGER_RO(numbers), count)) return R_NilValue;
  int at;
  for (;;) {
    const int64_t left = (until - rg_clock_now()) / 1000000;
    at = await_reply(stand, INTEGER_RO(numbers), count, waits, left < 0 ? 0 : left < 200 ? (int)left : 200);
    if (at >= 0) break;
    R_CheckUserInterrupt();
    if (rg_clock_now() >= until) return R_NilValue;
  }
  const int m = INTEGER_RO(numbers)[at] - 1, line = stand->members[m].line, pidfd = stand->members[m].pidfd;
  int64_t size = 0;
  SEXP got = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(got, 0, Rf_ScalarInteger(m + 1));
  if (receive(line, pidfd, &size, sizeof size, INT64_MAX) == RG_MESSAGE_OK) {
    SEXP bytes = SET_VECTOR_ELT(got, 1, Rf_allocVector(RAWSXP, (R_xlen_t)size));
    if (receive(line, pidfd, RAW(bytes), (size_t)size, INT64_MAX) == RG_MESSAGE_OK) {
      stand->members[m].calls--;
      stand->members[m].called = 1;
      stand->members[m].since = rg_clock_now(); /* of the next one, if there is one */
      UNPROTECT(1);
      return got;
    }
  }
  SET_VECTOR_ELT(got, 1, R_NilValue);
  rg_interrupt_begin();
  rg_stand_give_up(stand, m);
  rg_interrupt_end();
  R_CheckUserInterrupt();
  UNPROTECT(1);
  return got;
}

SEXP ffi_fork_stand_stop(SEXP pointer) {
  rg_stand *stand = R_ExternalPtrAddr(pointer);
  if (stand) stop_stand(stand);
  return R_NilValue;
}

void rg_server_forget_all(void) {
  for (rg_stand *stand = stands; stand; stand = stand->next) {
    for (int m = 0; m < stand->size; m++) rg_stand_forget(stand, m);
  }
  for (rg_server *server = servers; server; server = server->next) {
    rg_fd_close(&server->line);
    rg_fd_close(&server->pidfd);
    rg_fd_close(&server->log);
  }
  stands = NULL;
  servers = NULL;
}
