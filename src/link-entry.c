#include "link-entry.h"

#include <R_ext/Utils.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gate.h"
#include "link.h"
#include "socket-entry.h"
#include "sys-clock.h"
#include "sys-process.h"
#include "sys-socket.h"
#include "system.h"

/* Gates and links as R objects. Waits are slices of poll() with a look for interrupts between them. */
enum { SLICE_MS = 100, UNSENT_MAX = 1 << 26 };

SEXP ffi_crypto_available(void) { return Rf_ScalarLogical(rg_crypto_available()); }

SEXP ffi_crypto_random(SEXP size) {
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, Rf_asInteger(size)));
  if (rg_crypto_random(RAW(bytes), (size_t)XLENGTH(bytes)) < 0) Rf_error("no random bytes");
  UNPROTECT(1);
  return bytes;
}

/* list(interval, deadline, silence, limit, is_node) */
static rg_link_settings settings_of(SEXP list) {
  rg_link_settings s = {Rf_asReal(VECTOR_ELT(list, 0)), Rf_asReal(VECTOR_ELT(list, 1)),
                        Rf_asReal(VECTOR_ELT(list, 2)), (uint64_t)Rf_asReal(VECTOR_ELT(list, 3)),
                        Rf_asLogical(VECTOR_ELT(list, 4)) == TRUE};
  return s;
}

static void link_finalize(SEXP pointer) {
  rg_link *link = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  if (link) rg_link_close(link, 0);
}

static SEXP link_wrapper(void) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(pointer, link_finalize, FALSE);
  UNPROTECT(1);
  return pointer;
}

static rg_link *link_borrow(SEXP pointer) {
  rg_link *link = TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrAddr(pointer) : NULL;
  if (!link) Rf_error("this connection to a node has been closed");
  return link;
}

static void gate_finalize(SEXP pointer) {
  rg_gate_destroy(R_ExternalPtrAddr(pointer));
  R_ClearExternalPtr(pointer);
}

/* `server` is kept as long as the gate is. */
SEXP ffi_gate_new(SEXP server, SEXP key, SEXP numbers, SEXP seconds) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, server));
  R_RegisterCFinalizerEx(pointer, gate_finalize, FALSE);
  rg_gate *gate = rg_gate_create(rg_socket_entry_fd(server), RAW(key), (uint64_t)Rf_asReal(numbers),
                                 Rf_asReal(seconds));
  if (!gate) Rf_error("there is no memory for a gate");
  R_SetExternalPtrAddr(pointer, gate);
  UNPROTECT(1);
  return pointer;
}

static rg_gate *gate_borrow(SEXP pointer) {
  rg_gate *gate = R_ExternalPtrAddr(pointer);
  if (!gate) Rf_error("this gate has been closed");
  rg_socket_entry_fd(R_ExternalPtrProtected(pointer)); /* an error if the server was closed */
  return gate;
}

SEXP ffi_gate_close(SEXP gate) {
  gate_finalize(gate);
  return R_NilValue;
}

static const char *fate_name(const rg_gate_event *event) {
  if (event->fate == RG_GATE_ADMITTED) return "admitted";
  if (event->fate == RG_GATE_LATE) return "late";
  if (event->fate == RG_GATE_CROWDED) return "crowded";
  return event->result == RG_HANDSHAKE_FOREIGN ? "foreign"
         : event->result == RG_HANDSHAKE_WRONG ? "wrong"
         : event->result == RG_HANDSHAKE_ENDED ? "ended"
                                               : "error";
}

static SEXP event_value(rg_gate_event *event, const rg_link_settings *settings) {
  const char *names[] = {"fate", "number", "peer", "link", ""};
  char text[RG_ADDRESS_TEXT];
  SEXP value = PROTECT(Rf_mkNamed(VECSXP, names));
  rg_socket_format(&event->peer, text);
  SET_VECTOR_ELT(value, 0, Rf_mkString(fate_name(event)));
  SET_VECTOR_ELT(value, 1, Rf_ScalarReal((double)event->number));
  SET_VECTOR_ELT(value, 2, Rf_mkString(text));
  if (event->fate == RG_GATE_ADMITTED) {
    SEXP pointer = SET_VECTOR_ELT(value, 3, link_wrapper());
    rg_link *link = rg_link_open(event->fd, settings);
    event->fd = -1;
    if (link) R_SetExternalPtrAddr(pointer, link);
    else SET_VECTOR_ELT(value, 0, Rf_mkString("error"));
  }
  UNPROTECT(1);
  return value;
}

/* What has become of peers: a list of list(fate, number, peer, link). Nothing of R is called between
   the step and the links, and of what is allocated an error would lose descriptors only when there is no
   memory. */
SEXP ffi_gate_step(SEXP gate, SEXP settings) {
  enum { MOST = 2 * RG_GATE_PLACES };
  rg_link_settings link_settings = settings_of(settings);
  rg_gate_event *events = (rg_gate_event *)R_alloc(MOST, sizeof *events);
  int count = rg_gate_step(gate_borrow(gate), events, MOST);
  if (count < 0) return rg_system_failure("accept", errno);
  SEXP result = PROTECT(Rf_allocVector(VECSXP, count));
  for (int i = 0; i < count; i++) SET_VECTOR_ELT(result, i, event_value(&events[i], &link_settings));
  UNPROTECT(1);
  return result;
}

static int slice_until(int64_t until) {
  int64_t left = until - rg_clock_now();
  return left <= 0 ? 0 : left < SLICE_MS * 1000000LL ? (int)((left + 999999) / 1000000) : SLICE_MS;
}

static int64_t until_of(double seconds) {
  return seconds > 9e8 ? INT64_MAX : rg_clock_now() + (int64_t)(seconds * 1e9);
}

/* Waits until there may be news of a link, or of a gate unless that is NULL; whether there may be. */
SEXP ffi_link_wait(SEXP gate, SEXP seconds) {
  int fds[RG_GATE_PLACES + 2], ready[RG_GATE_PLACES + 2];
  int64_t until = until_of(Rf_asReal(seconds));
  for (;;) {
    R_CheckUserInterrupt();
    int count = gate == R_NilValue ? 0 : rg_gate_waits(gate_borrow(gate), fds);
    if (rg_link_news() >= 0) fds[count++] = rg_link_news();
    if (rg_socket_poll(fds, count, 0, slice_until(until), ready) > 0) {
      rg_link_news_seen();
      return Rf_ScalarLogical(TRUE);
    }
    if (rg_clock_now() >= until) return Rf_ScalarLogical(FALSE);
  }
}

typedef struct {
  SEXP socket, settings, pointer;
  rg_handshake handshake;
  int64_t until;
} joining;

/* The node's side of the handshake; NULL when it is done, else what has become of it. */
static const char *shake_hands(joining *j) {
  for (;;) {
    int fd = rg_socket_entry_fd(j->socket), ready;
    rg_handshake_result result = rg_handshake_step(&j->handshake, fd, NULL, NULL);
    if (result == RG_HANDSHAKE_DONE) return NULL;
    if (result != RG_HANDSHAKE_AGAIN) {
      return result == RG_HANDSHAKE_FOREIGN ? "foreign"
             : result == RG_HANDSHAKE_WRONG ? "wrong"
             : result == RG_HANDSHAKE_ENDED ? "end"
                                            : "recv";
    }
    R_CheckUserInterrupt();
    rg_socket_poll(&fd, 1, rg_handshake_writes(&j->handshake), slice_until(j->until), &ready);
    if (rg_clock_now() >= j->until) return "timeout";
  }
}

static SEXP join(void *data) {
  joining *j = data;
  const char *wrong = shake_hands(j);
  if (wrong) return rg_system_failure(wrong, errno);
  rg_link_settings settings = settings_of(j->settings);
  rg_link *link = rg_link_open(rg_socket_entry_take(j->socket), &settings);
  if (!link) return rg_system_failure("thread", errno);
  R_SetExternalPtrAddr(j->pointer, link);
  return j->pointer;
}

static void forget(void *data, Rboolean jump) {
  (void)jump;
  rg_handshake_end(data);
}

/* Proves to the session at the other end of `socket` that this is node `number`, has it prove itself,
   and makes a link of the socket. */
SEXP ffi_link_join(SEXP socket, SEXP key, SEXP number, SEXP seconds, SEXP settings) {
  joining j = {.socket = socket, .settings = settings};
  j.pointer = PROTECT(link_wrapper());
  j.until = until_of(Rf_asReal(seconds));
  SEXP token = PROTECT(R_MakeUnwindCont());
  if (rg_handshake_begin(&j.handshake, 0, RAW(key), (uint64_t)Rf_asReal(number)) < 0) {
    UNPROTECT(2);
    return rg_system_failure("crypto", 0);
  }
  SEXP result = R_UnwindProtect(join, &j, forget, &j.handshake, token);
  rg_handshake_end(&j.handshake);
  UNPROTECT(2);
  return result;
}

static SEXP lost(const rg_link_view *view) {
  static const char *const names[] = {
      [RG_FRAME_WHOLE] = "end", [RG_FRAME_END] = "end",   [RG_FRAME_TORN] = "torn",
      [RG_FRAME_BAD] = "bad",   [RG_FRAME_LONG] = "long", [RG_FRAME_MEMORY] = "memory",
      [RG_FRAME_ERROR] = "recv", [RG_FRAME_AGAIN] = "end"};
  return rg_system_failure(names[view->result], view->error);
}

/* The bytes are on their way when this returns, all of them or, after an interrupt, none. */
SEXP ffi_link_send(SEXP pointer, SEXP bytes) {
  rg_link_view view;
  for (;;) {
    rg_link_look(link_borrow(pointer), &view);
    if (view.state != RG_LINK_OPEN) return lost(&view);
    if (view.unsent < UNSENT_MAX) break;
    int fd = rg_link_news(), ready;
    R_CheckUserInterrupt();
    rg_socket_poll(&fd, 1, 0, SLICE_MS, &ready);
  }
  size_t size = (size_t)XLENGTH(bytes);
  unsigned char *payload = malloc(size + 1);
  if (!payload) return rg_system_failure("memory", ENOMEM);
  memcpy(payload, RAW_RO(bytes), size);
  if (rg_link_send(link_borrow(pointer), RG_LINK_VALUE, payload, size) == 0) return R_NilValue;
  rg_link_look(link_borrow(pointer), &view);
  return lost(&view);
}

/* The oldest message that has come, NULL if there is none; a failure if there will be none. */
SEXP ffi_link_take(SEXP pointer) {
  unsigned char *payload;
  uint64_t length;
  rg_link_view view;
  rg_link *link = link_borrow(pointer);
  rg_link_look(link, &view); /* before: what has come before the end is still there */
  if (!rg_link_take(link, &payload, &length)) {
    return view.state == RG_LINK_OPEN ? R_NilValue : lost(&view);
  }
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)length));
  if (length > 0) memcpy(RAW(bytes), payload, (size_t)length);
  free(payload);
  UNPROTECT(1);
  return bytes;
}

/* list(open, waiting, silent, cpu, memory): seconds and bytes */
SEXP ffi_link_look(SEXP pointer) {
  const char *names[] = {"open", "waiting", "silent", "cpu", "memory", ""};
  rg_link_view v;
  rg_link_look(link_borrow(pointer), &v);
  const double facts[] = {(double)v.silent_ns / 1e9, (double)v.cpu_ns / 1e9, (double)v.memory};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_ScalarLogical(v.state == RG_LINK_OPEN));
  SET_VECTOR_ELT(result, 1, Rf_ScalarReal((double)v.received));
  for (int i = 0; i < 3; i++) SET_VECTOR_ELT(result, 2 + i, Rf_ScalarReal(facts[i]));
  UNPROTECT(1);
  return result;
}

SEXP ffi_link_close(SEXP pointer, SEXP linger) {
  rg_link *link = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  if (link) rg_link_close(link, Rf_asReal(linger));
  return R_NilValue;
}

SEXP ffi_link_end_with_session(SEXP folder) {
  rg_process_adopt();
  rg_link_end_with_session(Rf_translateChar(STRING_ELT(folder, 0)));
  return R_NilValue;
}

SEXP ffi_link_heed_signals(void) {
  rg_link_heed_signals();
  return R_NilValue;
}

SEXP ffi_link_end_status(void) { return Rf_ScalarInteger(rg_link_end_status()); }
