#include "handshake.h"

#include <errno.h>
#include <string.h>

#include "frame.h"
#include "sys-layout.h"
#include "sys-socket.h"

RG_LAYOUT_SIZE(rg_handshake_challenge, 40);
RG_LAYOUT(rg_handshake_challenge, magic, 0, 8);
RG_LAYOUT(rg_handshake_challenge, nonce, 8, 32);

RG_LAYOUT_SIZE(rg_handshake_response, 80);
RG_LAYOUT(rg_handshake_response, magic, 0, 8);
RG_LAYOUT(rg_handshake_response, number, 8, 8);
RG_LAYOUT(rg_handshake_response, nonce, 16, 32);
RG_LAYOUT(rg_handshake_response, proof, 48, 32);

RG_LAYOUT_SIZE(rg_handshake_verdict, 40);
RG_LAYOUT(rg_handshake_verdict, magic, 0, 8);
RG_LAYOUT(rg_handshake_verdict, proof, 8, 32);

static const uint8_t magic_challenge[8] = "rgchal1", magic_response[8] = "rgnode1",
                     magic_verdict[8] = "rgsess1";

/* What a proof is the HMAC of. */
typedef struct {
  uint8_t role[16];
  uint8_t session_nonce[RG_NONCE];
  uint8_t node_nonce[RG_NONCE];
  uint8_t number[8];
} statement;

static statement state(const rg_handshake *h, const char *role) {
  statement s;
  memset(&s, 0, sizeof s);
  memcpy(s.role, role, strlen(role));
  memcpy(s.session_nonce, h->challenge.nonce, RG_NONCE);
  memcpy(s.node_nonce, h->response.nonce, RG_NONCE);
  memcpy(s.number, h->response.number, sizeof s.number);
  return s;
}

static int prove(const rg_handshake *h, const char *role, uint8_t proof[RG_CRYPTO_MAC]) {
  statement s = state(h, role);
  return rg_crypto_mac(proof, &s, sizeof s, h->key);
}

static int is_proved(const rg_handshake *h, const char *role, const uint8_t proof[RG_CRYPTO_MAC]) {
  statement s = state(h, role);
  return rg_crypto_verify(proof, &s, sizeof s, h->key);
}

int rg_handshake_begin(rg_handshake *h, int is_session, const uint8_t key[RG_CRYPTO_KEY],
                       uint64_t number) {
  memset(h, 0, sizeof *h);
  h->is_session = is_session;
  h->number = number;
  memcpy(h->key, key, RG_CRYPTO_KEY);
  memcpy(h->challenge.magic, magic_challenge, sizeof magic_challenge);
  return rg_crypto_random(is_session ? h->challenge.nonce : h->response.nonce, RG_NONCE);
}

void rg_handshake_end(rg_handshake *h) { rg_crypto_forget(h->key, sizeof h->key); }

/* The session writes in steps 0 and 2, the node in step 1. */
int rg_handshake_writes(const rg_handshake *h) { return (h->step == 1) != h->is_session; }

static rg_handshake_result move(rg_handshake *h, int fd, void *bytes, size_t size) {
  while (h->moved < size) {
    uint8_t *at = (uint8_t *)bytes + h->moved;
    ssize_t n = rg_handshake_writes(h) ? rg_socket_send(fd, at, size - h->moved)
                                       : rg_socket_recv(fd, at, size - h->moved);
    if (n < 0 && errno == EAGAIN) return RG_HANDSHAKE_AGAIN;
    if (n < 0) return errno == EPIPE || errno == ECONNRESET ? RG_HANDSHAKE_ENDED : RG_HANDSHAKE_ERROR;
    if (n == 0) return RG_HANDSHAKE_ENDED;
    h->moved += (size_t)n;
  }
  return RG_HANDSHAKE_DONE;
}

/* What begins otherwise is told as soon as its first byte is there: it may send no more than that. */
static rg_handshake_result move_message(rg_handshake *h, int fd, void *bytes, size_t size,
                                        const uint8_t magic[8]) {
  rg_handshake_result result = move(h, fd, bytes, size);
  size_t known = h->moved < 8 ? h->moved : 8;
  if (memcmp(bytes, magic, known) != 0) return RG_HANDSHAKE_FOREIGN;
  return result;
}

static rg_handshake_result step_challenge(rg_handshake *h, int fd) {
  rg_handshake_result result =
      move_message(h, fd, &h->challenge, sizeof h->challenge, magic_challenge);
  if (result != RG_HANDSHAKE_DONE || h->is_session) return result;
  memcpy(h->response.magic, magic_response, sizeof magic_response);
  rg_frame_put_number(h->response.number, h->number);
  return prove(h, "regatta node", h->response.proof) < 0 ? RG_HANDSHAKE_ERROR : RG_HANDSHAKE_DONE;
}

static rg_handshake_result step_response(rg_handshake *h, int fd, int (*admit)(void *, uint64_t),
                                         void *data) {
  rg_handshake_result result = move_message(h, fd, &h->response, sizeof h->response, magic_response);
  if (result != RG_HANDSHAKE_DONE || !h->is_session) return result;
  h->number = rg_frame_number(h->response.number);
  if (!is_proved(h, "regatta node", h->response.proof)) return RG_HANDSHAKE_WRONG;
  if (admit && !admit(data, h->number)) return RG_HANDSHAKE_WRONG;
  memcpy(h->verdict.magic, magic_verdict, sizeof magic_verdict);
  return prove(h, "regatta session", h->verdict.proof) < 0 ? RG_HANDSHAKE_ERROR : RG_HANDSHAKE_DONE;
}

static rg_handshake_result step_verdict(rg_handshake *h, int fd) {
  rg_handshake_result result = move_message(h, fd, &h->verdict, sizeof h->verdict, magic_verdict);
  if (result != RG_HANDSHAKE_DONE || h->is_session) return result;
  return is_proved(h, "regatta session", h->verdict.proof) ? RG_HANDSHAKE_DONE : RG_HANDSHAKE_WRONG;
}

rg_handshake_result rg_handshake_step(rg_handshake *h, int fd, int (*admit)(void *, uint64_t),
                                      void *data) {
  while (h->step < 3) {
    rg_handshake_result result = h->step == 0   ? step_challenge(h, fd)
                                 : h->step == 1 ? step_response(h, fd, admit, data)
                                                : step_verdict(h, fd);
    if (result != RG_HANDSHAKE_DONE) return result;
    h->step++;
    h->moved = 0;
  }
  return RG_HANDSHAKE_DONE;
}
