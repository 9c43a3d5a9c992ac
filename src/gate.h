#ifndef RG_GATE_H
#define RG_GATE_H

#include <stdint.h>

#include "handshake.h"
#include "sys-socket.h"

/*
 * Lets in those who prove that they know the secret (handshake.h), each number once. All handshakes go
 * on at the same time and each has to be done within a limit of time, so that one who says nothing holds
 * nobody up. Who comes when the places are full takes that of the one who has been here longest, if
 * that is more than the moment that who knows the secret needs.
 */
enum { RG_GATE_PLACES = 64 };

typedef struct {
  int fd; /* -1: free */
  int64_t begun;
  rg_handshake handshake;
  rg_address peer;
} rg_gate_place;

typedef struct {
  int listener; /* borrowed */
  int64_t limit_ns;
  uint8_t key[RG_CRYPTO_KEY];
  uint64_t numbers; /* 0 to this less 1 may come */
  unsigned char *admitted;
  rg_gate_place places[RG_GATE_PLACES];
} rg_gate;

/* What has become of a peer. `fd` is that of one who has been let in, and the caller's, else -1. */
typedef enum {
  RG_GATE_ADMITTED,
  RG_GATE_LATE,   /* it has not proved itself in time */
  RG_GATE_CROWDED, /* it had to make room */
  RG_GATE_REFUSED /* by the result of its handshake */
} rg_gate_fate;

typedef struct {
  rg_gate_fate fate;
  rg_handshake_result result;
  int fd;
  uint64_t number;
  rg_address peer;
} rg_gate_event;

/* NULL when there is no memory. */
rg_gate *rg_gate_create(int listener, const uint8_t key[RG_CRYPTO_KEY], uint64_t numbers, double seconds);
void rg_gate_destroy(rg_gate *gate);

/* Accepts who waits and goes on with all handshakes, without waiting. Up to `most` events, of which there
   should be room for twice RG_GATE_PLACES; how many, or -1 with errno if the listener fails. */
int rg_gate_step(rg_gate *gate, rg_gate_event *events, int most);

/* What is to be waited for: `fds` has RG_GATE_PLACES + 1 places. How many. */
int rg_gate_waits(const rg_gate *gate, int *fds);

#endif
