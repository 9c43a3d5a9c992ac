#include "socket-entry.h"

#include <R_ext/Utils.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "frame.h"
#include "sys-clock.h"
#include "sys-fd.h"
#include "sys-socket.h"
#include "system.h"

/*
 * Sockets as R objects: external pointers to the structure below. All of them are made before their
 * descriptor is, so that an interrupt loses none. A wait is a poll() of at most a slice, after which R
 * looks for interrupts; a signal ends the slice.
 *
 * Of what comes in nothing is lost by an interrupt or by the end of a time limit: it stays with the
 * socket until the next call. A frame that has been left half written is another matter, since its
 * reader is somewhere within it: such a socket is broken, and so is one whose peer has not ended its
 * frame in time or has sent what is none.
 */
enum { SLICE_MS = 100, TYPE_BYTES = 1 };

typedef struct {
  int fd; /* -1: closed */
  int is_server, is_blocking;
  int is_broken;
  double seconds; /* limit of each wait */
  rg_frame_reader frame;
  rg_buffer pending; /* of a read that has not come to its end */
  char *path;        /* of a Unix socket that is listened at, in the process `owner` */
  pid_t owner;
} rg_socket;

static void socket_finalize(SEXP pointer) {
  rg_socket *s = R_ExternalPtrAddr(pointer);
  if (!s) return;
  R_ClearExternalPtr(pointer);
  rg_fd_close(&s->fd);
  if (s->path && s->owner == getpid()) unlink(s->path);
  free(s->path);
  rg_frame_next(&s->frame);
  rg_buffer_reset(&s->pending, 0);
  free(s);
}

static SEXP socket_new(int is_server, double seconds, int is_blocking) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, socket_finalize, TRUE);
  rg_socket *s = calloc(1, sizeof *s);
  if (!s) Rf_error("there is no memory for a socket");
  s->fd = -1;
  s->is_server = is_server;
  s->is_blocking = is_blocking;
  s->seconds = seconds;
  R_SetExternalPtrAddr(pointer, s);
  UNPROTECT(1);
  return pointer;
}

static rg_socket *socket_borrow(SEXP pointer) {
  rg_socket *s = TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrAddr(pointer) : NULL;
  if (!s || s->fd < 0) Rf_error("this socket has been closed");
  return s;
}

int rg_socket_entry_fd(SEXP socket) { return socket_borrow(socket)->fd; }

int rg_socket_entry_take(SEXP socket) {
  rg_socket *s = socket_borrow(socket);
  int fd = s->fd;
  s->fd = -1;
  socket_finalize(socket);
  return fd;
}

static int64_t until_of(double seconds) {
  return seconds > 9e8 ? INT64_MAX : rg_clock_now() + (int64_t)(seconds * 1e9);
}

static int slice_until(int64_t until) {
  if (until == INT64_MAX) return SLICE_MS;
  int64_t left = until - rg_clock_now();
  return left <= 0 ? 0 : left < SLICE_MS * 1000000LL ? (int)((left + 999999) / 1000000) : SLICE_MS;
}

/* The number of sockets that are ready, 0 when the time is over, -1 with errno. */
static int await(const int *fds, int count, int write, int64_t until, int *ready) {
  for (;;) {
    R_CheckUserInterrupt();
    int ms = slice_until(until);
    int found = rg_socket_poll(fds, count, write, ms, ready);
    if (found > 0) return found;
    if (found < 0 && errno != EINTR) return -1;
    if (found == 0 && until != INT64_MAX && rg_clock_now() >= until) return 0;
  }
}

static int await_one(const rg_socket *s, int write, int64_t until) {
  int ready;
  return await(&s->fd, 1, write, until, &ready);
}

/* What await_one() was waiting for has not come. */
static SEXP in_vain(int found) {
  return found == 0 ? rg_system_failure("timeout", ETIMEDOUT) : rg_system_failure("poll", errno);
}

/* A folder that nobody else can enter keeps everybody else from the socket in it. */
static int is_private(const char *path) {
  struct stat folder;
  const char *slash = strrchr(path, '/');
  size_t size = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;
  char *name = R_alloc(size + 1, 1);
  memcpy(name, slash ? path : ".", size);
  name[size] = 0;
  return stat(name, &folder) == 0 && S_ISDIR(folder.st_mode) && folder.st_uid == geteuid() &&
         (folder.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* Addresses of host and port, or of a path unless that is NULL; 0, or the failure as an R value. */
static int addresses_of(SEXP host, SEXP port, SEXP path, int passive, rg_address *list, int *count,
                        SEXP *failed) {
  if (path != R_NilValue) {
    const char *name = Rf_translateChar(STRING_ELT(path, 0));
    if (rg_socket_path(name, &list[0]) < 0) {
      *failed = rg_system_failure("socket", errno);
      return -1;
    }
    *count = 1;
    if (passive && !is_private(name)) {
      *failed = rg_system_failure("folder", 0);
      return -1;
    }
    return 0;
  }
  const char *name = Rf_translateChar(STRING_ELT(host, 0));
  *count = rg_socket_resolve(name, Rf_asInteger(port), passive, list, RG_ADDRESS_MAX);
  if (*count > 0) return 0;
  SEXP text = PROTECT(Rf_mkString(*count < 0 ? rg_socket_resolve_message(*count) : "no address"));
  *failed = PROTECT(rg_system_failure("resolve", 0));
  Rf_setAttrib(*failed, Rf_install("reason"), text);
  UNPROTECT(2);
  return -1;
}

SEXP ffi_socket_listen(SEXP host, SEXP port, SEXP backlog, SEXP path, SEXP seconds) {
  rg_address list[RG_ADDRESS_MAX];
  int count;
  SEXP failed, pointer = PROTECT(socket_new(1, Rf_asReal(seconds), 1));
  rg_socket *s = R_ExternalPtrAddr(pointer);
  if (addresses_of(host, port, path, 1, list, &count, &failed) == 0) {
    double most = Rf_asReal(backlog);
    int code = 0;
    for (int i = 0; i < count && s->fd < 0; i++) {
      s->fd = rg_socket_listen(&list[i], most > INT_MAX ? INT_MAX : (int)most);
      if (s->fd < 0 && code == 0) code = errno;
    }
    if (s->fd >= 0) {
      if (path != R_NilValue) {
        s->path = strdup(Rf_translateChar(STRING_ELT(path, 0)));
        s->owner = getpid();
      }
      UNPROTECT(1);
      return pointer;
    }
    failed = PROTECT(rg_system_failure(code == EADDRINUSE ? "bind" : "listen", code));
    Rf_setAttrib(failed, Rf_install("path"), path);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return failed;
}

/* The other end of a Unix socket must be the same user's. */
static int is_mine(int fd) {
  uid_t user;
  pid_t pid;
  return rg_socket_peer_user(fd, &user, &pid) == 0 && user == geteuid();
}

SEXP ffi_socket_accept(SEXP server, SEXP seconds, SEXP blocking) {
  rg_socket *s = socket_borrow(server);
  double limit = Rf_asReal(seconds);
  int64_t until = until_of(limit);
  SEXP pointer = PROTECT(socket_new(0, s->seconds, Rf_asLogical(blocking) == TRUE));
  rg_socket *peer = R_ExternalPtrAddr(pointer);
  for (;;) {
    peer->fd = rg_socket_accept(s->fd);
    if (peer->fd >= 0 && s->path && !is_mine(peer->fd)) {
      rg_fd_close(&peer->fd);
      continue;
    }
    if (peer->fd >= 0) break;
    if (errno != EAGAIN) {
      UNPROTECT(1);
      return rg_system_failure("accept", errno);
    }
    int found = await_one(s, 0, until);
    socket_borrow(server); /* code that ran meanwhile may have closed it */
    if (found <= 0) {
      UNPROTECT(1);
      return in_vain(found);
    }
  }
  rg_socket_send_at_once(peer->fd);
  UNPROTECT(1);
  return pointer;
}

/* 0, or the error of this address; ETIMEDOUT also when the time is over. */
static int connect_to(rg_socket *s, const rg_address *address, int64_t until) {
  s->fd = rg_socket_connect(address);
  if (s->fd < 0) return errno;
  int found = await_one(s, 1, until);
  int code = found > 0 ? rg_socket_error(s->fd) : found == 0 ? ETIMEDOUT : errno;
  if (code == 0 && address->storage.ss_family == AF_UNIX && !is_mine(s->fd)) code = EACCES;
  if (code != 0) rg_fd_close(&s->fd);
  return code;
}

SEXP ffi_socket_connect(SEXP host, SEXP port, SEXP path, SEXP seconds, SEXP blocking) {
  rg_address list[RG_ADDRESS_MAX];
  int count;
  double limit = Rf_asReal(seconds);
  int64_t until = until_of(limit);
  SEXP failed, pointer = PROTECT(socket_new(0, limit, Rf_asLogical(blocking) == TRUE));
  rg_socket *s = R_ExternalPtrAddr(pointer);
  if (addresses_of(host, port, path, 0, list, &count, &failed) == 0) {
    int code = 0;
    for (int i = 0; i < count && s->fd < 0; i++) {
      int now = connect_to(s, &list[i], until);
      if (now != 0 && code == 0) code = now;
    }
    if (s->fd >= 0) {
      rg_socket_send_at_once(s->fd);
      UNPROTECT(1);
      return pointer;
    }
    failed = rg_system_failure(code == ETIMEDOUT ? "timeout" : "connect", code);
  }
  UNPROTECT(1);
  return failed;
}

SEXP ffi_socket_select(SEXP sockets, SEXP write, SEXP seconds) {
  int count = (int)XLENGTH(sockets), waiting = 0;
  int writes = Rf_asLogical(write) == TRUE;
  int64_t until = until_of(Rf_asReal(seconds));
  int *fds = (int *)R_alloc((size_t)count + 1, sizeof *fds);
  int *ready = (int *)R_alloc((size_t)count + 1, sizeof *ready);
  SEXP result = PROTECT(Rf_allocVector(LGLSXP, count));
  for (int i = 0; i < count; i++) {
    const rg_socket *s = socket_borrow(VECTOR_ELT(sockets, i));
    fds[i] = s->fd;
    LOGICAL(result)[i] = !writes && (s->pending.size > 0 || s->is_broken);
    waiting |= LOGICAL(result)[i];
  }
  int found = await(fds, count, writes, waiting ? rg_clock_now() : until, ready);
  if (found < 0) {
    UNPROTECT(1);
    return rg_system_failure("poll", errno);
  }
  for (int i = 0; i < count; i++) LOGICAL(result)[i] |= ready[i];
  UNPROTECT(1);
  return result;
}

SEXP ffi_socket_timeout(SEXP socket, SEXP seconds) {
  rg_socket *s = socket_borrow(socket);
  double before = s->seconds;
  if (seconds != R_NilValue) s->seconds = Rf_asReal(seconds);
  return Rf_ScalarReal(before);
}

static SEXP broken(void) { return rg_system_failure("broken", EPIPE); }

/* Bytes of what is pending, as an R value. */
static SEXP take_pending(rg_socket *s, size_t size) {
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)size));
  if (size > 0) memcpy(RAW(bytes), s->pending.data, size);
  rg_buffer_consume(&s->pending, size);
  if (s->pending.size == 0) rg_buffer_reset(&s->pending, 1 << 16);
  UNPROTECT(1);
  return bytes;
}

/* All of `size`, or fewer at the end of what the peer sends; without blocking what is there. */
SEXP ffi_socket_read(SEXP socket, SEXP size) {
  rg_socket *s = socket_borrow(socket);
  if (s->is_broken) return broken();
  if (rg_frame_is_begun(&s->frame)) return rg_system_failure("within", 0);
  size_t wanted = (size_t)Rf_asReal(size);
  int64_t until = until_of(s->seconds);
  enum { PIECE = 1 << 16 };
  while (s->pending.size < wanted) {
    size_t more = wanted - s->pending.size < PIECE ? wanted - s->pending.size : PIECE;
    if (rg_buffer_reserve(&s->pending, more) < 0) return rg_system_failure("memory", ENOMEM);
    ssize_t n = rg_socket_recv(s->fd, s->pending.data + s->pending.size, more);
    if (n > 0) {
      s->pending.size += (size_t)n;
      continue;
    }
    if (n == 0) break;
    if (errno != EAGAIN) return rg_system_failure("recv", errno);
    if (!s->is_blocking) break;
    int found = await_one(s, 0, until);
    s = socket_borrow(socket);
    if (found <= 0) return in_vain(found);
  }
  return take_pending(s, s->pending.size < wanted ? s->pending.size : wanted);
}

static void break_it(void *data, Rboolean jump) {
  rg_socket *s = R_ExternalPtrAddr(data);
  if (jump && s) s->is_broken = 1;
}

typedef struct {
  SEXP socket, bytes;
  rg_frame_writer *writer;
} writing;

static SEXP write_bytes(void *data) {
  const writing *w = data;
  rg_socket *s = socket_borrow(w->socket);
  size_t size = (size_t)XLENGTH(w->bytes), sent = 0;
  int64_t until = until_of(s->seconds);
  while (sent < size) {
    size_t piece = size - sent < (1 << 20) ? size - sent : 1 << 20;
    ssize_t n = rg_socket_send(s->fd, RAW(w->bytes) + sent, piece);
    if (n >= 0) {
      sent += (size_t)n;
      continue;
    }
    if (errno != EAGAIN) return rg_system_failure("send", errno);
    if (!s->is_blocking) break;
    int found = await_one(s, 1, until);
    s = socket_borrow(w->socket);
    if (found <= 0) return in_vain(found);
  }
  return Rf_ScalarReal((double)sent);
}

static SEXP write_frame(void *data) {
  const writing *w = data;
  rg_socket *s = socket_borrow(w->socket);
  int64_t until = until_of(s->seconds);
  for (;;) {
    rg_frame_result result = rg_frame_write(w->writer, s->fd);
    if (result == RG_FRAME_WHOLE) return R_NilValue;
    if (result == RG_FRAME_ERROR) return rg_system_failure("send", errno);
    int found = await_one(s, 1, until);
    s = socket_borrow(w->socket);
    if (found <= 0) return in_vain(found);
  }
}

/* The reader of a peer that was sent a part is within something: that is not to be gone on with. */
static SEXP write_or_break(SEXP (*write)(void *), writing *w) {
  SEXP token = PROTECT(R_MakeUnwindCont());
  SEXP result = PROTECT(R_UnwindProtect(write, w, break_it, w->socket, token));
  break_it(w->socket, TYPEOF(result) == VECSXP);
  UNPROTECT(2);
  return result;
}

SEXP ffi_socket_write(SEXP socket, SEXP bytes) {
  rg_socket *s = socket_borrow(socket);
  if (s->is_broken) return broken();
  writing w = {socket, bytes, NULL};
  return write_or_break(write_bytes, &w);
}

SEXP ffi_socket_send(SEXP socket, SEXP bytes) {
  rg_socket *s = socket_borrow(socket);
  if (s->is_broken) return broken();
  rg_frame_writer writer;
  rg_frame_begin(&writer, TYPE_BYTES, RAW(bytes), (uint64_t)XLENGTH(bytes));
  writing w = {socket, bytes, &writer};
  return write_or_break(write_frame, &w);
}

static SEXP spoiled(rg_socket *s, rg_frame_result result) {
  static const char *const names[] = {
      [RG_FRAME_END] = "end",   [RG_FRAME_TORN] = "torn",     [RG_FRAME_BAD] = "bad",
      [RG_FRAME_LONG] = "long", [RG_FRAME_MEMORY] = "memory", [RG_FRAME_ERROR] = "recv"};
  int code = errno;
  s->is_broken = 1;
  SEXP failed = PROTECT(rg_system_failure(names[result], result == RG_FRAME_ERROR ? code : 0));
  SEXP length = PROTECT(Rf_ScalarReal((double)s->frame.length));
  Rf_setAttrib(failed, Rf_install("length"), length);
  UNPROTECT(2);
  return failed;
}

SEXP ffi_socket_receive(SEXP socket, SEXP most) {
  rg_socket *s = socket_borrow(socket);
  if (s->is_broken) return broken();
  if (s->pending.size > 0) return rg_system_failure("pending", 0);
  s->frame.limit = (uint64_t)Rf_asReal(most);
  int64_t until = until_of(s->seconds);
  for (;;) {
    rg_frame_result result = rg_frame_read(&s->frame, s->fd);
    if (result == RG_FRAME_WHOLE) break;
    if (result != RG_FRAME_AGAIN) return spoiled(s, result);
    if (!s->is_blocking) return R_NilValue;
    int found = await_one(s, 0, until);
    s = socket_borrow(socket);
    if (found <= 0) {
      s->is_broken = rg_frame_is_begun(&s->frame);
      return in_vain(found);
    }
  }
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)s->frame.length));
  if (s->frame.length > 0) memcpy(RAW(bytes), s->frame.payload, (size_t)s->frame.length);
  rg_frame_next(&s->frame);
  UNPROTECT(1);
  return bytes;
}

/* list(open, server, blocking, broken, timeout, address, peer) */
SEXP ffi_socket_about(SEXP socket) {
  const char *names[] = {"open", "server", "blocking", "broken", "timeout", "address", "port", "peer", ""};
  const rg_socket *s = TYPEOF(socket) == EXTPTRSXP ? R_ExternalPtrAddr(socket) : NULL;
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  int is_open = s && s->fd >= 0;
  SET_VECTOR_ELT(result, 0, Rf_ScalarLogical(is_open));
  if (is_open) {
    rg_address address;
    char text[RG_ADDRESS_TEXT] = "";
    SET_VECTOR_ELT(result, 1, Rf_ScalarLogical(s->is_server));
    SET_VECTOR_ELT(result, 2, Rf_ScalarLogical(s->is_blocking));
    SET_VECTOR_ELT(result, 3, Rf_ScalarLogical(s->is_broken));
    SET_VECTOR_ELT(result, 4, Rf_ScalarReal(s->seconds));
    int port = 0;
    if (rg_socket_own_address(s->fd, &address) == 0) {
      rg_socket_format(&address, text);
      port = rg_socket_port(&address);
    }
    SET_VECTOR_ELT(result, 5, Rf_mkString(text));
    SET_VECTOR_ELT(result, 6, Rf_ScalarInteger(port));
    if (!s->is_server && rg_socket_peer_address(s->fd, &address) == 0) {
      rg_socket_format(&address, text);
      SET_VECTOR_ELT(result, 7, Rf_mkString(text));
    }
  }
  UNPROTECT(1);
  return result;
}

SEXP ffi_socket_close(SEXP socket) {
  socket_borrow(socket);
  socket_finalize(socket);
  return R_NilValue;
}
