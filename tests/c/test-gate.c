#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "gate.h"
#include "sys-clock.h"

/* Who proves to know the secret is let in, once for each number; nobody else, and nobody holds the others up. */

static uint8_t key[RG_CRYPTO_KEY] = "a secret of thirty-two bytes....", other[RG_CRYPTO_KEY] = "x";

enum { EVENTS = 2 * RG_GATE_PLACES, FATES = RG_GATE_REFUSED + 1 };

typedef struct {
  int listener;
  rg_address address;
  rg_gate *gate;
  int fates[FATES];
  rg_gate_event last;
  int numbers[64]; /* how often each was let in */
} house;

static house house_of(uint64_t numbers, double seconds) {
  house h = {.listener = -1};
  rg_address list[4];
  CHECK(rg_socket_resolve("127.0.0.1", 0, 1, list, 4) >= 1);
  h.listener = rg_socket_listen(&list[0], 128);
  CHECK(h.listener >= 0);
  CHECK(rg_socket_own_address(h.listener, &h.address) == 0);
  h.gate = rg_gate_create(h.listener, key, numbers, seconds);
  CHECK(h.gate != NULL);
  return h;
}

static void leave(house *h) {
  rg_gate_destroy(h->gate);
  close(h->listener);
}

static int come(const house *h) {
  int fd = rg_socket_connect(&h->address);
  struct pollfd ready = {fd, POLLOUT, 0};
  CHECK(fd >= 0 && poll(&ready, 1, 5000) == 1);
  return fd;
}

static void step(house *h) {
  rg_gate_event events[EVENTS];
  int count = rg_gate_step(h->gate, events, EVENTS);
  CHECK(count >= 0);
  for (int i = 0; i < count; i++) {
    h->fates[events[i].fate]++;
    h->last = events[i];
    CHECK((events[i].fd >= 0) == (events[i].fate == RG_GATE_ADMITTED));
    if (events[i].fate != RG_GATE_ADMITTED) continue;
    CHECK(events[i].number < 64);
    h->numbers[events[i].number]++;
    close(events[i].fd);
  }
}

static int decided(const house *h) {
  int sum = 0;
  for (int f = 0; f < FATES; f++) sum += h->fates[f];
  return sum;
}

/* Until so many fates are decided; gives up after some seconds. */
static void step_until(house *h, int count) {
  const struct timespec nap = {0, 1000000};
  const int64_t until = rg_clock_now() + (int64_t)20 * 1000000000;
  while (decided(h) < count && rg_clock_now() < until) {
    step(h);
    nanosleep(&nap, NULL);
  }
  CHECK(decided(h) == count);
}

static int no_library(void) {
  if (rg_crypto_available()) return 0;
  check_skip("built without libsodium");
  return 1;
}

/* Nodes whose steps come in any order, some with a number that has been or is none, or with another secret. */
TEST(gate_lets_in_each_number_once) {
  if (no_library()) return;
  enum { NODES = 40, NUMBERS = 20 };
  uint64_t seed = 3;
  for (int round = 0; round < (CHECK_SANITIZED ? 3 : 20); round++) {
    house h = house_of(NUMBERS, 60);
    rg_handshake node[NODES];
    int fd[NODES], first[NUMBERS] = {0}, admitted = 0, left = NODES;
    for (int i = 0; i < NODES; i++) {
      const uint64_t number = (uint64_t)check_below(&seed, NUMBERS + 4);
      const int knows = check_below(&seed, 5) > 0;
      fd[i] = come(&h);
      CHECK(rg_handshake_begin(&node[i], 0, knows ? key : other, number) == 0);
      if (knows && number < NUMBERS) first[number] = 1;
    }
    const int64_t until = rg_clock_now() + (int64_t)20 * 1000000000;
    while (left > 0 && rg_clock_now() < until) {
      int i = (int)check_below(&seed, NODES);
      if (check_below(&seed, 4) == 0) step(&h);
      if (fd[i] < 0) continue;
      rg_handshake_result result = rg_handshake_step(&node[i], fd[i], NULL, NULL);
      if (result == RG_HANDSHAKE_AGAIN) continue;
      admitted += result == RG_HANDSHAKE_DONE;
      rg_handshake_end(&node[i]);
      close(fd[i]);
      fd[i] = -1;
      left--;
    }
    CHECK(left == 0);
    step_until(&h, NODES);
    int sum = 0;
    for (int n = 0; n < 64; n++) {
      CHECK(h.numbers[n] == (n < NUMBERS && first[n]));
      sum += h.numbers[n];
    }
    CHECK(h.fates[RG_GATE_ADMITTED] == sum && admitted == sum);
    CHECK(h.fates[RG_GATE_REFUSED] == NODES - sum);
    leave(&h);
  }
}

TEST(gate_refuses_what_is_no_handshake) {
  if (no_library()) return;
  uint64_t seed = 11;
  char noise[200];
  house h = house_of(4, 60);
  int count = 0;
  for (int i = 0; i < 30; i++) {
    int fd = come(&h);
    const size_t size = 1 + (size_t)check_below(&seed, sizeof noise);
    for (size_t k = 0; k < size; k++) noise[k] = (char)check_random(&seed);
    noise[0] = 'x';
    CHECK(send(fd, noise, size, 0) == (ssize_t)size);
    step_until(&h, ++count);
    CHECK(h.last.fate == RG_GATE_REFUSED && h.last.result == RG_HANDSHAKE_FOREIGN);
    close(fd);
  }
  leave(&h);
}

/* Where it was killed in the midst of what it says. */
TEST(gate_is_left_by_who_dies_at_any_byte) {
  if (no_library()) return;
  house h = house_of(1, 60);
  int count = 0;
  for (size_t size = 0; size < sizeof(rg_handshake_response); size += CHECK_SANITIZED ? 31 : 7) {
    pid_t pid = fork();
    if (pid == 0) {
      rg_handshake node;
      int fd = come(&h), pair[2];
      rg_handshake_challenge challenge;
      fcntl(fd, F_SETFL, 0);
      if (recv(fd, &challenge, sizeof challenge, MSG_WAITALL) != sizeof challenge) _exit(1);
      /* the response comes out of a node that is asked by way of another connection */
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0) _exit(1);
      rg_handshake_begin(&node, 0, key, 0);
      if (send(pair[0], &challenge, sizeof challenge, 0) < 0) _exit(1);
      rg_handshake_step(&node, pair[1], NULL, NULL);
      if (size > 0 && send(fd, &node.response, size, 0) < 0) _exit(1);
      raise(SIGKILL);
    }
    step_until(&h, ++count);
    CHECK(h.last.fate == RG_GATE_REFUSED && h.last.result == RG_HANDSHAKE_ENDED);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
  }
  /* None of them has used up the number. */
  int fd = come(&h);
  rg_handshake node;
  CHECK(rg_handshake_begin(&node, 0, key, 0) == 0);
  for (int i = 0; i < 5000 && rg_handshake_step(&node, fd, NULL, NULL) == RG_HANDSHAKE_AGAIN; i++) step(&h);
  CHECK(h.numbers[0] == 1);
  rg_handshake_end(&node);
  close(fd);
  leave(&h);
}

TEST(gate_waits_for_nobody_longer_than_its_limit) {
  if (no_library()) return;
  house h = house_of(4, 0.2);
  int fd = come(&h), fds[RG_GATE_PLACES + 1];
  step(&h);
  CHECK(rg_gate_waits(h.gate, fds) == 2 && fds[0] == h.listener && fds[1] >= 0);
  CHECK(decided(&h) == 0);
  step_until(&h, 1);
  CHECK(h.last.fate == RG_GATE_LATE);
  CHECK(rg_gate_waits(h.gate, fds) == 1);
  close(fd);
  leave(&h);
}

/* Those who say nothing fill all places: the one that has been there longest makes room, and not before its moment. */
TEST(gate_that_is_full_makes_room) {
  if (no_library()) return;
  house h = house_of(4, 60);
  int fd[RG_GATE_PLACES + 1], fds[RG_GATE_PLACES + 1];
  for (int i = 0; i < RG_GATE_PLACES; i++) fd[i] = come(&h);
  const int64_t begun = rg_clock_now();
  const struct timespec nap = {0, 1000000};
  while (rg_gate_waits(h.gate, fds) < RG_GATE_PLACES + 1 && rg_clock_now() - begun < (int64_t)10 * 1000000000) {
    step(&h);
    nanosleep(&nap, NULL);
  }
  CHECK(decided(&h) == 0);
  fd[RG_GATE_PLACES] = come(&h);
  step(&h);
  if (rg_clock_now() - begun < 500000000) CHECK(decided(&h) == 0);
  step_until(&h, 1);
  CHECK(h.last.fate == RG_GATE_CROWDED);
  CHECK(rg_clock_now() - begun >= 500000000);
  rg_handshake node;
  CHECK(rg_handshake_begin(&node, 0, key, 2) == 0);
  for (int i = 0; i < 5000 && rg_handshake_step(&node, fd[RG_GATE_PLACES], NULL, NULL) == RG_HANDSHAKE_AGAIN; i++) {
    step(&h);
  }
  CHECK(h.numbers[2] == 1);
  rg_handshake_end(&node);
  for (int i = 0; i <= RG_GATE_PLACES; i++) close(fd[i]);
  leave(&h);
}
