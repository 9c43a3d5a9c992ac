#ifndef RG_HANDSHAKE_H
#define RG_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "sys-crypto.h"

/*
 * Who is at the other end. The session listens and a node connects; both know a random secret of 256
 * bits, which has come to the node by another way. Each proves that it knows it, to the other, by the
 * HMAC of what the other has just drawn, and nothing that a peer sends is looked at further before its
 * proof is right. The session begins, so that a node on a connection that only the node believes in
 * finds that out (it gets no challenge in time and connects again).
 *
 *   session -> node  rg_handshake_challenge: the session's nonce
 *   node -> session  rg_handshake_response:  the node's number and nonce, and its proof
 *   session -> node  rg_handshake_verdict:   the session's proof
 *
 * All three have a fixed size: there is no length to be believed. A proof is the HMAC of a word for who
 * proves, both nonces and the number. The word makes that the proof of one side is none of the other
 * (a challenge thrown back at its sender is of no use), the nonces that an old proof is none. A number
 * is admitted once.
 *
 * What this does not do: it does not encrypt what follows. On the way between machines that is the
 * business of ssh.
 */
enum { RG_NONCE = 32 };

typedef struct {
  uint8_t magic[8];
  uint8_t nonce[RG_NONCE];
} rg_handshake_challenge;

typedef struct {
  uint8_t magic[8];
  uint8_t number[8]; /* lowest byte first */
  uint8_t nonce[RG_NONCE];
  uint8_t proof[RG_CRYPTO_MAC];
} rg_handshake_response;

typedef struct {
  uint8_t magic[8];
  uint8_t proof[RG_CRYPTO_MAC];
} rg_handshake_verdict;

typedef enum {
  RG_HANDSHAKE_AGAIN, /* the socket takes or gives no more now */
  RG_HANDSHAKE_DONE,
  RG_HANDSHAKE_ENDED,   /* the peer has gone */
  RG_HANDSHAKE_FOREIGN, /* it speaks something else */
  RG_HANDSHAKE_WRONG,   /* its proof is wrong */
  RG_HANDSHAKE_ERROR    /* of the system, or no library for proofs */
} rg_handshake_result;

typedef struct {
  int is_session;
  int step;
  size_t moved; /* bytes of this step */
  uint8_t key[RG_CRYPTO_KEY];
  uint64_t number;
  rg_handshake_challenge challenge;
  rg_handshake_response response;
  rg_handshake_verdict verdict;
} rg_handshake;

/* 0; -1 where there are no random bytes. `number` is the node's; the session hears it from the node. */
int rg_handshake_begin(rg_handshake *h, int is_session, const uint8_t key[RG_CRYPTO_KEY],
                       uint64_t number);

/* Goes on as far as the socket `fd` lets it. What comes after the last message is not touched. Whether
   a number that has proved itself may still be admitted is asked of `admit` before the session
   proves itself (NULL: yes); if not, that is a wrong proof. */
rg_handshake_result rg_handshake_step(rg_handshake *h, int fd, int (*admit)(void *, uint64_t),
                                      void *data);
/* Whether the next thing is to write. */
int rg_handshake_writes(const rg_handshake *h);
/* Forgets the secret. */
void rg_handshake_end(rg_handshake *h);

#endif
