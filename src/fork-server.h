#ifndef RG_FORK_SERVER_H
#define RG_FORK_SERVER_H

#include <Rinternals.h>
#include <stdint.h>
#include <sys/types.h>

#include "fork-bytes.h"
#include "fork-pool.h"
#include "sys-process.h"

/*
 * The fork server: one R process that a session has started as a program, and that forks workers for it, or
 * starts each as a program of its own. It shares nothing with the session but a pair of connected sockets, the
 * line, which it has inherited. A stand is a number of its workers that stand ready, each with a line of its
 * own to the session; between two runs each waits for a message on it.
 *
 *   session  --request-->  server      fork a worker; collect one that has ended
 *   session  --message-->  worker      take part in a run; evaluate a call
 *
 * The server collects a worker when it is asked to, so that until then its pid, to which the session
 * sends signals, is nobody else's. The session's end closes all lines and, where the system can tell,
 * sends the server a signal; the server's end sends one to its workers.
 */

/* Of a worker that is a program of its own: it has not said yet that it is ready; its line has ended instead. */
typedef enum { RG_MEMBER_STARTED = 0, RG_MEMBER_STARTING, RG_MEMBER_FAILED } rg_member_start;

/* In the session. */
typedef struct {
  pid_t pid; /* 0: none, one is forked when it is needed */
  int pidfd;
  int line;
  const void *run; /* the pool in whose run it takes part, or NULL */
  int64_t calls;   /* sent, and not answered yet */
  int64_t since;   /* when it was given what it does now, a run or calls */
  rg_member_start starting;
  int called; /* it has answered a call, which may have left something in it */
  int lost;   /* one that had, has gone since, and nobody was told */
} rg_member;

typedef struct rg_server {
  pid_t owner, pid;
  int pidfd, line;
  int log;    /* what it has written to stdout and stderr */
  int greets; /* its workers are programs: each says once that it is ready, by a reply to no call */
  int64_t holders;
  struct rg_server *next;
} rg_server;

typedef struct rg_stand {
  pid_t owner;
  uint64_t tag;
  rg_server *server;
  int size;
  rg_member *members;
  int64_t holders;
  int stopped;
  struct rg_stand *next;
} rg_stand;

rg_stand *rg_stand_borrow(SEXP pointer);
void rg_stand_hold(rg_stand *stand);
void rg_stand_drop(rg_stand *stand);

/* A member that has a worker and takes part in no run, among those with these numbers (from 1): its
   index, or -1 with errno set: EBUSY if all have something to do, ESRCH if the server has ended. */
int rg_stand_take(rg_stand *stand, const int *numbers, int count);

/* Collects the worker of the member, by way of the server: 1 if it has ended. */
int rg_stand_collect(rg_stand *stand, int member, rg_process_end *end);

/* The same of one that was killed, waiting until then; the member has no worker afterwards. One that
   takes longer is left to the server. */
int rg_stand_bury(rg_stand *stand, int member, int64_t until, rg_process_end *end);

/* Kills the worker of a member to which no message can be sent any more. */
void rg_stand_give_up(rg_stand *stand, int member);

/* The worker of the member is gone. */
void rg_stand_forget(rg_stand *stand, int member);

/* Whether the worker of the member has not said yet that it is ready; what it has said is read. Until then it
   has read nothing that it was sent. */
int rg_stand_is_starting(rg_stand *stand, int member);

/* A forked copy of this process closes what it has inherited of all servers. */
void rg_server_forget_all(void);

SEXP ffi_fork_server_start(SEXP arguments, SEXP environment, SEXP greets);
SEXP ffi_fork_server_send(SEXP server, SEXP bytes);
SEXP ffi_fork_server_receive(SEXP server, SEXP timeout);
SEXP ffi_fork_server_state(SEXP server);
SEXP ffi_fork_server_stop(SEXP server);
SEXP ffi_fork_stand_new(SEXP server, SEXP size);
SEXP ffi_fork_stand_renew(SEXP stand, SEXP server);
SEXP ffi_fork_stand_fill(SEXP stand, SEXP count);
SEXP ffi_fork_stand_await(SEXP stand, SEXP timeout);
SEXP ffi_fork_stand_members(SEXP stand);
SEXP ffi_fork_stand_send(SEXP stand, SEXP member, SEXP bytes);
SEXP ffi_fork_stand_receive(SEXP stand, SEXP members, SEXP timeout);
SEXP ffi_fork_stand_replace(SEXP stand, SEXP member);
SEXP ffi_fork_stand_stop(SEXP stand);

/* fork-attach.c: in the session. */
SEXP ffi_fork_pool_code(SEXP pool, SEXP bytes);
SEXP ffi_fork_worker_attach(SEXP pool, SEXP slot, SEXP id, SEXP members);

/* The end of a run for workers of a stand: those that are between two elements leave it, the others
   are killed, and so are those that have not left after some time, in a `hurry` a short one. */
void rg_fork_detach(rg_pool *pool, int hurry);

/* fork-member.c: in a worker. The bytes of the run's code. */
SEXP rg_fork_member_join(const rg_member_message *message, int *fds, int count);
__attribute__((noreturn)) void rg_fork_member_leave_process(void);
/* Whether there is nothing that elements of the run have started. */
int rg_fork_member_is_clean(void);
SEXP ffi_fork_member_ready(void);
SEXP ffi_fork_member_leave(void);

/* fork-serve.c: in the server, and in its workers */
SEXP ffi_fork_serve_begin(void);
SEXP ffi_fork_serve_receive(void);
SEXP ffi_fork_serve_send(SEXP bytes);
SEXP ffi_fork_serve(SEXP call, SEXP idle, SEXP env, SEXP command);
SEXP ffi_fork_member_begin(void);
SEXP ffi_fork_member_main(SEXP call, SEXP env);
SEXP ffi_fork_member_next(void);
SEXP ffi_fork_member_reply(SEXP bytes);

#endif
