#include "gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys-clock.h"
#include "sys-fd.h"

rg_gate *rg_gate_create(int listener, const uint8_t key[RG_CRYPTO_KEY], uint64_t numbers,
                        double seconds) {
  rg_gate *gate = calloc(1, sizeof *gate);
  if (!gate) return NULL;
  gate->admitted = calloc((size_t)numbers + 1, 1);
  if (!gate->admitted) {
    free(gate);
    return NULL;
  }
  gate->listener = listener;
  gate->limit_ns = (int64_t)(seconds * 1e9);
  gate->numbers = numbers;
  memcpy(gate->key, key, RG_CRYPTO_KEY);
  for (int i = 0; i < RG_GATE_PLACES; i++) gate->places[i].fd = -1;
  return gate;
}

static void free_place(rg_gate_place *place) {
  rg_fd_close(&place->fd);
  rg_handshake_end(&place->handshake);
}

void rg_gate_destroy(rg_gate *gate) {
  if (!gate) return;
  for (int i = 0; i < RG_GATE_PLACES; i++) free_place(&gate->places[i]);
  rg_crypto_forget(gate->key, sizeof gate->key);
  free(gate->admitted);
  free(gate);
}

static int admit(void *data, uint64_t number) {
  rg_gate *gate = data;
  if (number >= gate->numbers || gate->admitted[number]) return 0;
  gate->admitted[number] = 1;
  return 1;
}

static rg_gate_event dismiss(rg_gate_place *place, rg_gate_fate fate, rg_handshake_result result) {
  rg_gate_event event = {fate, result, -1, place->handshake.number, place->peer};
  free_place(place);
  return event;
}

static rg_gate_place *find_place(rg_gate *gate) {
  rg_gate_place *oldest = &gate->places[0];
  for (int i = 0; i < RG_GATE_PLACES; i++) {
    rg_gate_place *place = &gate->places[i];
    if (place->fd < 0) return place;
    if (place->begun < oldest->begun) oldest = place;
  }
  return oldest;
}

/* How long a peer keeps its place while others wait for one. */
enum { MOMENT_NS = 500000000 };

/* One peer; 1 if another had to make room for it, 0 if not, -1 if nobody waits or there is no room. */
static int accept_one(rg_gate *gate, rg_gate_event *event) {
  rg_gate_place *place = find_place(gate);
  int is_full = place->fd >= 0;
  errno = EAGAIN;
  if (is_full && rg_clock_now() - place->begun < MOMENT_NS) return -1;
  int fd = rg_socket_accept(gate->listener);
  if (fd < 0) return -1;
  if (is_full) *event = dismiss(place, RG_GATE_CROWDED, RG_HANDSHAKE_AGAIN);
  place->fd = fd;
  place->begun = rg_clock_now();
  rg_socket_peer_address(fd, &place->peer);
  rg_socket_send_at_once(fd);
  rg_handshake_begin(&place->handshake, 1, gate->key, 0);
  return is_full;
}

/* 1 if the peer's fate is decided. */
static int go_on(rg_gate *gate, rg_gate_place *place, int64_t now, rg_gate_event *event) {
  rg_handshake_result result = rg_handshake_step(&place->handshake, place->fd, admit, gate);
  if (result == RG_HANDSHAKE_AGAIN) {
    if (now - place->begun < gate->limit_ns) return 0;
    *event = dismiss(place, RG_GATE_LATE, result);
    return 1;
  }
  int fd = place->fd;
  if (result == RG_HANDSHAKE_DONE) place->fd = -1;
  *event = dismiss(place, result == RG_HANDSHAKE_DONE ? RG_GATE_ADMITTED : RG_GATE_REFUSED, result);
  if (result == RG_HANDSHAKE_DONE) event->fd = fd;
  return 1;
}

int rg_gate_step(rg_gate *gate, rg_gate_event *events, int most) {
  int count = 0;
  /* the others wait in the queue of the system, until those of this step are heard */
  for (int i = 0; i < RG_GATE_PLACES && count < most - RG_GATE_PLACES; i++) {
    int made_room = accept_one(gate, &events[count]);
    if (made_room < 0 && errno != EAGAIN && errno != EMFILE && errno != ENFILE) return -1;
    if (made_room < 0) break;
    count += made_room;
  }
  int64_t now = rg_clock_now();
  for (int i = 0; i < RG_GATE_PLACES && count < most; i++) {
    rg_gate_place *place = &gate->places[i];
    if (place->fd >= 0) count += go_on(gate, place, now, &events[count]);
  }
  return count;
}

int rg_gate_waits(const rg_gate *gate, int *fds) {
  int count = 0;
  fds[count++] = gate->listener;
  for (int i = 0; i < RG_GATE_PLACES; i++) {
    if (gate->places[i].fd >= 0) fds[count++] = gate->places[i].fd;
  }
  return count;
}
