#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cluster-wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <R_ext/Utils.h>

#include "buffer.h"
#include "call-r.h"
#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-layout.h"
#include "sys-process.h"
#include "sys-socket.h"

RG_LAYOUT_SIZE(rg_cluster_frame, 96);
RG_LAYOUT(rg_cluster_frame, magic, 0, 4);
RG_LAYOUT(rg_cluster_frame, type, 4, 4);
RG_LAYOUT(rg_cluster_frame, kind, 8, 4);
RG_LAYOUT(rg_cluster_frame, tries, 12, 4);
RG_LAYOUT(rg_cluster_frame, index, 16, 8);
RG_LAYOUT(rg_cluster_frame, times, 24, 16);
RG_LAYOUT(rg_cluster_frame, size, 40, 8);
RG_LAYOUT(rg_cluster_frame, token, 48, 48);

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum {
  READ_PIECE = 1 << 16,
  READ_MOST = 1 << 26,       /* bytes that are taken before others get their turn */
  MESSAGES_MOST = 256,       /* likewise */
  TRY_ALWAYS = 1 << 20,      /* below so many bytes each new piece is worth a try to unserialise */
  SLICE_MS = 50,             /* how long a signal may go unnoticed that another thread has got */
};

/* The pointer protects what is left to send; its tag is the payload that is being read. */
typedef struct {
  int r_fd;                  /* R's number for the socket */
  int fd;                    /* the socket while it is parked, else -1 */
  rg_fd_identity socket, stand_in;
  int pid, pidfd;            /* of a node of this machine, else 0 and -1 */
  int ended;                 /* nothing will come any more */
  size_t sent;               /* of what is left to send */
  rg_buffer in;
  size_t at;                 /* where in `in` the next message begins */
  size_t tried;              /* so many bytes from there are no whole message */
  rg_cluster_frame frame;    /* whose payload is being read */
  size_t filled;
} wire;

static wire *wire_of(SEXP pointer) {
  wire *w = TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrAddr(pointer) : NULL;
  if (!w) Rf_error("not the socket of a node");
  return w;
}

static int socket_of(const wire *w) {
  if (w->fd >= 0) return w->fd;
  return rg_fd_is(w->r_fd, w->socket) ? w->r_fd : -1;
}

static void finalize(SEXP pointer) {
  wire *w = R_ExternalPtrAddr(pointer);
  if (!w) return;
  R_ClearExternalPtr(pointer);
  rg_fd_close(&w->fd);
  rg_fd_close(&w->pidfd);
  free(w->in.data);
  free(w);
}

/* `deadline`: seconds for which the system tries to reach a host that does not answer. */
SEXP ffi_cluster_wire_new(SEXP fd, SEXP deadline) {
  wire *w = calloc(1, sizeof *w);
  if (!w) Rf_error("no memory for the socket of a node");
  SEXP pointer = PROTECT(R_MakeExternalPtr(w, R_NilValue, R_NilValue));
  R_RegisterCFinalizer(pointer, finalize);
  w->r_fd = Rf_asInteger(fd);
  w->socket = rg_fd_identify(w->r_fd);
  w->fd = w->pidfd = -1;
  const int yes = 1;
  setsockopt(w->r_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  /* Package parallel waits for a host that cannot be reached any more for a month. */
  rg_socket_watch_peer(w->r_fd, Rf_asReal(deadline));
  UNPROTECT(1);
  return pointer;
}

/* The end of a process of this machine is seen although a program that it has started keeps the
   socket open. */
SEXP ffi_cluster_wire_watch(SEXP pointer, SEXP pid) {
  wire *w = wire_of(pointer);
  w->pid = Rf_asInteger(pid);
  rg_fd_close(&w->pidfd);
  w->pidfd = rg_process_pidfd((pid_t)w->pid);
  if (w->pidfd < 0 && errno == ESRCH) w->ended = 1;
  return R_NilValue;
}

static int process_has_ended(const wire *w) {
  if (w->pid <= 0) return 0;
  if (w->pidfd < 0) return kill((pid_t)w->pid, 0) < 0 && errno == ESRCH;
  struct pollfd poll_pid = {w->pidfd, POLLIN, 0};
  return poll(&poll_pid, 1, 0) > 0;
}

/* The number of a process that has ended may be another's. */
SEXP ffi_cluster_wire_signal(SEXP pointer, SEXP number) {
  wire *w = wire_of(pointer);
  int sent = w->pid > 0 && !process_has_ended(w) && kill((pid_t)w->pid, Rf_asInteger(number)) == 0;
  return Rf_ScalarLogical(sent);
}

/* `file` in the place of R's number `to`, which is closed by exec as before. */
static int put_in_place(int file, int to) {
  int flags = fcntl(to, F_GETFD);
  if (flags < 0 || dup2(file, to) < 0) return -1;
  return fcntl(to, F_SETFD, flags);
}

SEXP ffi_cluster_wire_park(SEXP pointer) {
  wire *w = wire_of(pointer);
  if (w->fd >= 0) return Rf_ScalarLogical(TRUE);
  if (!rg_fd_is(w->r_fd, w->socket)) return Rf_ScalarLogical(FALSE);
  int file = rg_fd_memory("regatta-parked");
  int kept = fcntl(w->r_fd, F_DUPFD_CLOEXEC, 3);
  w->stand_in = rg_fd_identify(file);
  int good = file >= 0 && kept >= 0 && put_in_place(file, w->r_fd) == 0;
  int saved = errno;
  rg_fd_close(&file);
  if (!good) rg_fd_close(&kept);
  w->fd = kept;
  if (!good) Rf_error("cannot take the socket of a node: %s", strerror(saved));
  return Rf_ScalarLogical(TRUE);
}

/* FALSE if R has closed the connection meanwhile. */
SEXP ffi_cluster_wire_unpark(SEXP pointer) {
  wire *w = wire_of(pointer);
  if (w->fd < 0) return Rf_ScalarLogical(rg_fd_is(w->r_fd, w->socket));
  int good = rg_fd_is(w->r_fd, w->stand_in) && put_in_place(w->fd, w->r_fd) == 0;
  rg_fd_close(&w->fd);
  return Rf_ScalarLogical(good);
}

static void end_process(const wire *w) {
  if (w->pid <= 0 || process_has_ended(w)) return;
  const int steps[] = {SIGTERM, SIGKILL};
  for (int step = 0; step < 2; step++) {
    kill((pid_t)w->pid, steps[step]);
    for (int i = 0; i < 300 && !process_has_ended(w); i++) poll(NULL, 0, 1);
    if (process_has_ended(w)) return;
  }
}

/* The node is not to be used again, by nobody: R's connection stays, and leads nowhere. */
SEXP ffi_cluster_wire_close(SEXP pointer, SEXP kill_it) {
  wire *w = wire_of(pointer);
  if (w->fd < 0 && rg_fd_is(w->r_fd, w->socket)) ffi_cluster_wire_park(pointer);
  w->ended = 1;
  if (w->fd >= 0) shutdown(w->fd, SHUT_RDWR);
  if (Rf_asLogical(kill_it) == TRUE) end_process(w);
  rg_fd_close(&w->fd);
  rg_fd_close(&w->pidfd);
  w->pid = 0;
  R_SetExternalPtrProtected(pointer, R_NilValue);
  R_SetExternalPtrTag(pointer, R_NilValue);
  rg_buffer_reset(&w->in, 0);
  w->at = w->tried = 0;
  return R_NilValue;
}

/* Ends what elements have started in a node that is gone and could not do so: the programs with its mark. */
SEXP ffi_cluster_kill_marked(SEXP mark) {
  rg_process_kill_marked("REGATTA_RUN", CHAR(STRING_ELT(mark, 0)));
  return R_NilValue;
}

/* A socket that takes what is sent to it, with nobody at the other end: it is its own. */
static int open_sink(void) {
  struct sockaddr_in self = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof self;
  int fd = rg_fd_lift(socket(AF_INET, SOCK_DGRAM, 0));
  if (fd >= 0 && (bind(fd, (struct sockaddr *)&self, size) < 0 ||
                  getsockname(fd, (struct sockaddr *)&self, &size) < 0 ||
                  connect(fd, (struct sockaddr *)&self, size) < 0)) {
    rg_fd_close(&fd);
  }
  return fd;
}

/* The connection is about to be closed; that of a node out of service takes what is written to it. */
SEXP ffi_cluster_wire_part(SEXP pointer) {
  wire *w = wire_of(pointer);
  rg_fd_close(&w->pidfd);
  w->pid = 0;
  int sink = rg_fd_is(w->r_fd, w->stand_in) ? open_sink() : -1;
  int good = sink >= 0 && put_in_place(sink, w->r_fd) == 0;
  rg_fd_close(&sink);
  return Rf_ScalarLogical(good);
}

/* What the socket takes now of what is left to send. */
static void flush(SEXP pointer, wire *w) {
  SEXP left = R_ExternalPtrProtected(pointer);
  int fd = socket_of(w);
  while (left != R_NilValue) {
    size_t size = (size_t)XLENGTH(left) - w->sent;
    ssize_t n = fd < 0 ? -1 : send(fd, RAW_RO(left) + w->sent, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && fd >= 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) w->ended = 1;
    w->sent += n < 0 ? size : (size_t)n;
    if (w->sent == (size_t)XLENGTH(left)) R_SetExternalPtrProtected(pointer, left = R_NilValue);
  }
}

/* FALSE if the message before has not gone yet, or the node has. */
SEXP ffi_cluster_wire_send(SEXP pointer, SEXP bytes) {
  wire *w = wire_of(pointer);
  if (w->ended || R_ExternalPtrProtected(pointer) != R_NilValue) return Rf_ScalarLogical(FALSE);
  R_SetExternalPtrProtected(pointer, bytes);
  w->sent = 0;
  flush(pointer, w);
  return Rf_ScalarLogical(!w->ended);
}

/* Into the payload that is being read, else into the buffer; 0: nothing is there. */
static size_t receive(SEXP pointer, wire *w) {
  SEXP payload = R_ExternalPtrTag(pointer);
  int fd = socket_of(w);
  void *to;
  size_t room;
  if (payload != R_NilValue) {
    to = RAW(payload) + w->filled;
    room = (size_t)XLENGTH(payload) - w->filled;
  } else {
    if (w->at > 0) rg_buffer_consume(&w->in, w->at);
    w->at = 0;
    if (rg_buffer_reserve(&w->in, READ_PIECE) < 0) Rf_error("no memory for the message of a node");
    to = w->in.data + w->in.size;
    room = READ_PIECE;
  }
  ssize_t n;
  do {
    n = fd < 0 ? 0 : recv(fd, to, room, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    w->ended = w->ended || process_has_ended(w);
    return 0;
  }
  if (n <= 0) {
    w->ended = 1;
    return 0;
  }
  if (payload != R_NilValue) {
    w->filled += (size_t)n;
  } else {
    w->in.size += (size_t)n;
  }
  return (size_t)n;
}

static SEXP frame_message(const rg_cluster_frame *frame, SEXP payload) {
  const char *names[] = {"type", "index", "try", "kind", "times", "payload", "tag", ""};
  char token[RG_CLUSTER_TOKEN];
  memcpy(token, frame->token, sizeof token);
  token[sizeof token - 1] = '\0';
  SEXP message = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(message, 0, Rf_ScalarInteger(frame->type));
  SET_VECTOR_ELT(message, 1, Rf_ScalarReal(frame->index));
  SET_VECTOR_ELT(message, 2, Rf_ScalarInteger(frame->tries));
  SET_VECTOR_ELT(message, 3, Rf_ScalarInteger(frame->kind));
  SEXP times = SET_VECTOR_ELT(message, 4, Rf_allocVector(REALSXP, 2));
  memcpy(REAL(times), frame->times, sizeof frame->times);
  SET_VECTOR_ELT(message, 5, payload);
  SET_VECTOR_ELT(message, 6, Rf_mkString(token));
  UNPROTECT(1);
  return message;
}

/* A message of parallel has no length: whether it is whole shows when it is read. */
typedef struct {
  const char *data;
  size_t size, at;
  int starved;
} source;

static void take(R_inpstream_t stream, void *to, int count) {
  source *from = stream->data;
  size_t size = (size_t)count;
  if (size > from->size - from->at) {
    from->starved = 1;
    Rf_error("the message is not whole");
  }
  memcpy(to, from->data + from->at, size);
  from->at += size;
}

static int take_char(R_inpstream_t stream) {
  unsigned char byte;
  take(stream, &byte, 1);
  return byte;
}

static SEXP read_source(void *data) {
  struct R_inpstream_st stream;
  R_InitInPStream(&stream, data, R_pstream_any_format, take_char, take, NULL, R_NilValue);
  return R_Unserialize(&stream);
}

static SEXP not_whole(SEXP condition, void *data) {
  (void)condition;
  ((source *)data)->at = 0;
  return R_NilValue;
}

/* The next whole message, or NULL. */
static SEXP next_message(SEXP pointer, wire *w, int force) {
  if (R_ExternalPtrTag(pointer) == R_NilValue) {
    size_t size = w->in.size - w->at;
    const char *data = w->in.data + w->at;
    uint32_t magic = 0;
    if (size < sizeof magic) return NULL;
    memcpy(&magic, data, sizeof magic);
    if (magic != RG_CLUSTER_MAGIC) {
      if (size == w->tried || (!force && size > TRY_ALWAYS && size < 2 * w->tried)) return NULL;
      source from = {data, size, 0, 0};
      SEXP message = PROTECT(R_tryCatchError(read_source, &from, not_whole, &from));
      w->tried = from.at > 0 ? 0 : size;
      w->at += from.at;
      if (from.at == 0 && !from.starved) w->ended = 1;
      UNPROTECT(1);
      return from.at > 0 ? message : NULL;
    }
    if (size < sizeof w->frame) return NULL;
    memcpy(&w->frame, data, sizeof w->frame);
    size -= sizeof w->frame;
    if (w->frame.size < size) size = (size_t)w->frame.size;
    SEXP payload = Rf_allocVector(RAWSXP, (R_xlen_t)w->frame.size);
    if (size > 0) memcpy(RAW(payload), data + sizeof w->frame, size);
    w->at += sizeof w->frame + size;
    w->filled = size;
    R_SetExternalPtrTag(pointer, payload);
  }
  SEXP payload = R_ExternalPtrTag(pointer);
  if (w->filled < (size_t)XLENGTH(payload)) return NULL;
  SEXP message = PROTECT(frame_message(&w->frame, payload));
  R_SetExternalPtrTag(pointer, R_NilValue);
  UNPROTECT(1);
  return message;
}

/* list(messages, ended): the whole messages that have come, without waiting. */
SEXP ffi_cluster_wire_read(SEXP pointer) {
  wire *w = wire_of(pointer);
  const char *names[] = {"messages", "ended", ""};
  SEXP found = PROTECT(Rf_allocVector(VECSXP, MESSAGES_MOST));
  size_t got = 0;
  int count = 0, dry = 0;
  flush(pointer, w);
  while (count < MESSAGES_MOST) {
    SEXP message = next_message(pointer, w, dry && got == 0);
    if (message) {
      SET_VECTOR_ELT(found, count++, message);
    } else if (dry || got > READ_MOST) {
      break;
    } else {
      size_t n = receive(pointer, w);
      got += n;
      dry = n == 0;
    }
  }
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP messages = SET_VECTOR_ELT(result, 0, Rf_allocVector(VECSXP, count));
  for (int i = 0; i < count; i++) SET_VECTOR_ELT(messages, i, VECTOR_ELT(found, i));
  SET_VECTOR_ELT(result, 1, Rf_ScalarLogical(w->ended && count < MESSAGES_MOST));
  UNPROTECT(2);
  return result;
}

static int has_untried(const wire *w) { return w->in.size - w->at > w->tried; }

/* Which nodes have something to be read, or have ended, within `timeout` seconds. What is left to be
   sent goes meanwhile. */
SEXP ffi_cluster_wire_poll(SEXP pointers, SEXP timeout) {
  int count = (int)XLENGTH(pointers), any = 0;
  struct pollfd *fds = (struct pollfd *)R_alloc((size_t)count * 2 + 1, sizeof *fds);
  double seconds = Rf_asReal(timeout);
  int64_t until = rg_clock_now() + (int64_t)((seconds < 1e6 ? seconds : 1e6) * 1e9);
  SEXP ready = PROTECT(Rf_allocVector(LGLSXP, count));
  memset(LOGICAL(ready), 0, (size_t)count * sizeof(int));
  for (int round = 0; !any; round++) {
    for (int i = 0; i < count; i++) {
      SEXP pointer = VECTOR_ELT(pointers, i);
      wire *w = wire_of(pointer);
      int more = R_ExternalPtrProtected(pointer) != R_NilValue;
      fds[2 * i] = (struct pollfd){socket_of(w), (short)(POLLIN | (more ? POLLOUT : 0)), 0};
      fds[2 * i + 1] = (struct pollfd){w->pidfd, POLLIN, 0};
      if (w->ended || fds[2 * i].fd < 0) any = LOGICAL(ready)[i] = 1;
    }
    int64_t left = any ? 0 : (until - rg_clock_now() + 999999) / 1000000;
    int ms = left < 0 ? 0 : left < SLICE_MS ? (int)left : SLICE_MS;
    int got = poll(fds, (nfds_t)count * 2, ms);
    for (int i = 0; i < count; i++) {
      SEXP pointer = VECTOR_ELT(pointers, i);
      wire *w = wire_of(pointer);
      if (got > 0 && (fds[2 * i].revents & POLLOUT)) flush(pointer, w);
      int news = got > 0 && ((fds[2 * i].revents & ~POLLOUT) || fds[2 * i + 1].revents);
      if (news || w->ended || (got == 0 && has_untried(w))) any = LOGICAL(ready)[i] = 1;
    }
    R_CheckUserInterrupt();
    if (rg_clock_now() >= until) break;
  }
  UNPROTECT(1);
  return ready;
}

int rg_cluster_wire_send_all(int fd, const void *data, size_t size) {
  const char *at = data;
  while (size > 0) {
    ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      struct pollfd wait = {fd, POLLOUT, 0};
      poll(&wait, 1, 1000);
    } else if (n < 0 && errno != EINTR) {
      return -1;
    } else if (n > 0) {
      at += n;
      size -= (size_t)n;
    }
  }
  return 0;
}

/* -1: no socket, or none of TCP. */
static int socket_port(int fd, int (*name)(int, struct sockaddr *, socklen_t *)) {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } end;
  socklen_t size = sizeof end;
  if (name(fd, &end.any, &size) < 0) return -1;
  if (end.any.sa_family == AF_INET) return ntohs(end.v4.sin_port);
  return end.any.sa_family == AF_INET6 ? ntohs(end.v6.sin6_port) : -1;
}

enum { CANDIDATES_MOST = 1024 };

static int list_candidates(int port, int *found) {
  int count = 0;
  const struct dirent *entry;
  DIR *open_ones = opendir("/dev/fd");
  if (!open_ones) return 0;
  while ((entry = readdir(open_ones)) && count < CANDIDATES_MOST) {
    int fd = atoi(entry->d_name); /* 0 for what is no number: no socket of R's */
    if (socket_port(fd, getsockname) == port || socket_port(fd, getpeername) == port) {
      found[count++] = fd;
    }
  }
  closedir(open_ones);
  return count;
}

/* What `call` says, a logical for each connection, while `stand_in` is in the place of `fd`. */
static SEXP ask_in_place(int fd, int stand_in, SEXP call, SEXP env) {
  int failed = 1, kept = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (kept < 0) return R_NilValue;
  SEXP answer = R_NilValue;
  if (put_in_place(stand_in, fd) == 0) answer = R_tryEvalSilent(call, env, &failed);
  put_in_place(kept, fd);
  close(kept);
  return failed || TYPEOF(answer) != LGLSXP ? R_NilValue : answer;
}

/* R does not tell which descriptor a connection has. Each socket of the port is replaced for a moment
   by a pipe that is empty, and then is not: `call`, socketSelect() of the connections that does not
   wait, answers for one of them differently. The descriptors; -1 where none was found. */
SEXP ffi_cluster_wire_find(SEXP port, SEXP call, SEXP env) {
  int found[CANDIDATES_MOST], ends[2];
  int count = list_candidates(Rf_asInteger(port), found);
  SEXP result = PROTECT(R_NilValue);
  for (int c = 0; c < count; c++) {
    if (rg_fd_pipe(ends, 0) < 0) break;
    SEXP before = PROTECT(ask_in_place(found[c], ends[0], call, env));
    int written = write(ends[1], "", 1) == 1;
    SEXP after = PROTECT(ask_in_place(found[c], ends[0], call, env));
    close(ends[0]);
    close(ends[1]);
    if (before != R_NilValue && after != R_NilValue && written) {
      if (result == R_NilValue) {
        result = Rf_allocVector(INTSXP, XLENGTH(before));
        for (R_xlen_t i = 0; i < XLENGTH(result); i++) INTEGER(result)[i] = -1;
      }
      for (R_xlen_t i = 0; i < XLENGTH(result) && i < XLENGTH(after); i++) {
        if (!LOGICAL(before)[i] && LOGICAL(after)[i]) INTEGER(result)[i] = found[c];
      }
    }
    UNPROTECT(3);
    PROTECT(result);
  }
  UNPROTECT(1);
  return result;
}

/* An interrupt may come before `stop` holds interrupts back; it has been taken then. */
static void stop_run(void *data, Rboolean jump) {
  SEXP *stop = data;
  for (int i = 0, failed = jump; i < 16 && failed; i++) {
    R_tryEvalSilent(stop[0], stop[1], &failed);
  }
}

/* Evaluates `call` in `env`, and `stop` if that ends by a jump, before anything else. */
SEXP ffi_cluster_guard(SEXP call, SEXP env, SEXP stop) {
  SEXP stop_in[] = {stop, env};
  return rg_guard(call, env, stop_run, stop_in);
}
