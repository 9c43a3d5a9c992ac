#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "handshake.h"

/* Only who knows the secret gets in, and only to who knows it does anybody answer. */

static uint8_t key[RG_CRYPTO_KEY] = "a secret of thirty-two bytes....", other[RG_CRYPTO_KEY] = "x";

typedef struct {
  int session_fd, node_fd;
  rg_handshake session, node;
} meeting;

static meeting meet(const uint8_t *session_key, const uint8_t *node_key, uint64_t number) {
  meeting m;
  int fd[2] = {-1, -1};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
  for (int i = 0; i < 2; i++) fcntl(fd[i], F_SETFL, O_NONBLOCK);
  m.session_fd = fd[0];
  m.node_fd = fd[1];
  CHECK(rg_handshake_begin(&m.session, 1, session_key, 0) == 0);
  CHECK(rg_handshake_begin(&m.node, 0, node_key, number) == 0);
  return m;
}

static void part(meeting *m) {
  rg_handshake_end(&m->session);
  rg_handshake_end(&m->node);
  close(m->session_fd);
  close(m->node_fd);
}

static int no_library(void) {
  if (rg_crypto_available()) return 0;
  check_skip("built without libsodium");
  return 1;
}

static int admit_17(void *data, uint64_t number) {
  ++*(int *)data;
  return number == 17;
}

TEST(handshake_of_two_who_know_the_secret) {
  if (no_library()) return;
  meeting m = meet(key, key, 0x1122334455667788u);
  CHECK(rg_handshake_step(&m.node, m.node_fd, NULL, NULL) == RG_HANDSHAKE_AGAIN);
  CHECK(rg_handshake_step(&m.session, m.session_fd, NULL, NULL) == RG_HANDSHAKE_AGAIN);
  CHECK(rg_handshake_step(&m.node, m.node_fd, NULL, NULL) == RG_HANDSHAKE_AGAIN);
  CHECK(rg_handshake_step(&m.session, m.session_fd, NULL, NULL) == RG_HANDSHAKE_DONE);
  CHECK(send(m.session_fd, "next", 4, 0) == 4);
  CHECK(rg_handshake_step(&m.node, m.node_fd, NULL, NULL) == RG_HANDSHAKE_DONE);
  CHECK(m.session.number == 0x1122334455667788u);
  char left[8];
  CHECK(recv(m.node_fd, left, sizeof left, 0) == 4 && memcmp(left, "next", 4) == 0);
  part(&m);
}

TEST(handshake_with_a_wrong_secret_ends_before_the_session_proves_anything) {
  if (no_library()) return;
  meeting m = meet(key, other, 1);
  rg_handshake_step(&m.session, m.session_fd, NULL, NULL);
  CHECK(rg_handshake_step(&m.node, m.node_fd, NULL, NULL) == RG_HANDSHAKE_AGAIN);
  CHECK(rg_handshake_step(&m.session, m.session_fd, NULL, NULL) == RG_HANDSHAKE_WRONG);
  char nothing;
  CHECK(recv(m.node_fd, &nothing, 1, 0) < 0 && errno == EAGAIN);
  part(&m);
}

TEST(handshake_with_who_only_plays_the_session_ends_in_the_node) {
  if (no_library()) return;
  meeting m = meet(key, key, 1);
  rg_handshake_challenge challenge = m.session.challenge;
  CHECK(send(m.session_fd, &challenge, sizeof challenge, 0) == sizeof challenge);
  CHECK(rg_handshake_step(&m.node, m.node_fd, NULL, NULL) == RG_HANDSHAKE_AGAIN);
  rg_handshake_response response;
  CHECK(recv(m.session_fd, &response, sizeof response, 0) == sizeof response);
  /* the node's own proof, thrown back at it */
  rg_handshake_verdict verdict;
  memcpy(verdict.magic, "rgsess1", 8);
  memcpy(verdict.proof, response.proof, sizeof verdict.proof);
  CHECK(send(m.session_fd, &verdict, sizeof verdict, 0) == sizeof verdict);
  CHECK(rg_handshake_step(&m.node, m.node_fd, NULL, NULL) == RG_HANDSHAKE_WRONG);
  part(&m);
}

TEST(handshake_that_was_overheard_opens_nothing_again) {
  if (no_library()) return;
  meeting m = meet(key, key, 5);
  rg_handshake_step(&m.session, m.session_fd, NULL, NULL);
  rg_handshake_step(&m.node, m.node_fd, NULL, NULL);
  rg_handshake_response overheard = m.node.response;
  part(&m);
  m = meet(key, key, 5);
  rg_handshake_step(&m.session, m.session_fd, NULL, NULL);
  CHECK(send(m.node_fd, &overheard, sizeof overheard, 0) == sizeof overheard);
  CHECK(rg_handshake_step(&m.session, m.session_fd, NULL, NULL) == RG_HANDSHAKE_WRONG);
  part(&m);
}

/* Two sessions with one secret: what one asks cannot be had answered by the other. */
TEST(handshake_of_two_sessions_with_each_other_ends) {
  if (no_library()) return;
  meeting m = meet(key, key, 1);
  CHECK(rg_handshake_begin(&m.node, 1, key, 0) == 0);
  rg_handshake_step(&m.session, m.session_fd, NULL, NULL);
  CHECK(rg_handshake_step(&m.node, m.node_fd, NULL, NULL) == RG_HANDSHAKE_FOREIGN);
  CHECK(rg_handshake_step(&m.session, m.session_fd, NULL, NULL) == RG_HANDSHAKE_FOREIGN);
  part(&m);
}

TEST(handshake_admits_only_whom_it_is_told_to) {
  if (no_library()) return;
  for (uint64_t number = 16; number < 19; number++) {
    int asked = 0;
    meeting m = meet(key, key, number);
    rg_handshake_step(&m.session, m.session_fd, admit_17, &asked);
    rg_handshake_step(&m.node, m.node_fd, NULL, NULL);
    CHECK(rg_handshake_step(&m.session, m.session_fd, admit_17, &asked) ==
          (number == 17 ? RG_HANDSHAKE_DONE : RG_HANDSHAKE_WRONG));
    CHECK(asked == 1);
    part(&m);
  }
}

TEST(handshake_fails_for_every_bit_that_is_not_as_it_was_sent) {
  if (no_library()) return;
  for (size_t bit = 0; bit < 8 * sizeof(rg_handshake_response); bit++) {
    int asked = 0;
    meeting m = meet(key, key, 17);
    rg_handshake_step(&m.session, m.session_fd, admit_17, &asked);
    rg_handshake_step(&m.node, m.node_fd, NULL, NULL);
    rg_handshake_response response;
    CHECK(recv(m.session_fd, &response, sizeof response, 0) == sizeof response);
    ((uint8_t *)&response)[bit / 8] ^= (uint8_t)(1 << bit % 8);
    CHECK(send(m.node_fd, &response, sizeof response, 0) == sizeof response);
    CHECK(rg_handshake_step(&m.session, m.session_fd, admit_17, &asked) ==
          (bit < 64 ? RG_HANDSHAKE_FOREIGN : RG_HANDSHAKE_WRONG));
    CHECK(asked == 0);
    part(&m);
  }
}

TEST(handshake_with_a_stranger_ends_at_its_first_byte) {
  if (no_library()) return;
  const char *const talk[] = {"GET / HTTP/1.1\r\n\r\n", "X", "\n", "SSH-2.0", "rgf1"};
  for (size_t i = 0; i < sizeof talk / sizeof *talk; i++) {
    meeting m = meet(key, key, 1);
    CHECK(send(m.node_fd, talk[i], strlen(talk[i]), 0) > 0);
    CHECK(rg_handshake_step(&m.session, m.session_fd, NULL, NULL) == RG_HANDSHAKE_FOREIGN);
    part(&m);
  }
  meeting m = meet(key, key, 1);
  close(m.node_fd);
  CHECK(rg_handshake_step(&m.session, m.session_fd, NULL, NULL) == RG_HANDSHAKE_ENDED);
  m.node_fd = -1;
  part(&m);
}

TEST(handshake_random_bytes_differ_and_macs_are_those_of_the_standard) {
  if (no_library()) return;
  uint8_t a[32], b[32], mac[32];
  CHECK(rg_crypto_random(a, 32) == 0 && rg_crypto_random(b, 32) == 0 && memcmp(a, b, 32) != 0);
  /* RFC 4231, test case 1: a shorter key is filled with zeros */
  const uint8_t wanted[32] = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
                              0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
                              0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7};
  uint8_t rfc[32];
  memset(rfc, 0, sizeof rfc);
  memset(rfc, 0x0b, 20);
  CHECK(rg_crypto_mac(mac, "Hi There", 8, rfc) == 0 && memcmp(mac, wanted, 32) == 0);
  CHECK(rg_crypto_verify(wanted, "Hi There", 8, rfc) && !rg_crypto_verify(wanted, "hi There", 8, rfc));
}
