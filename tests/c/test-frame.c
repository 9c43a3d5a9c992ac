#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "frame.h"
#include "sys-socket.h"

/* A frame comes out as it went in, or not at all; no bytes of a peer make the reader take memory that
   they do not fill, read beyond a frame, or go on after it has lost its place. */

typedef struct {
  int near, far;
} pair;

static pair new_pair(void) {
  int fd[2] = {-1, -1};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
  for (int i = 0; i < 2; i++) fcntl(fd[i], F_SETFL, O_NONBLOCK);
  return (pair){fd[0], fd[1]};
}

static void free_pair(pair p) {
  if (p.near >= 0) close(p.near);
  if (p.far >= 0) close(p.far);
}

static unsigned char byte_of(uint64_t number, uint64_t at) {
  return (unsigned char)(number * 37 + at * 11 + 5);
}

static unsigned char *payload_of(uint64_t number, size_t size) {
  unsigned char *bytes = malloc(size + 1);
  for (size_t i = 0; i < size; i++) bytes[i] = byte_of(number, i);
  return bytes;
}

static int is_payload(const rg_frame_reader *reader, uint64_t number, size_t size) {
  if (reader->length != size || reader->got != size) return 0;
  size_t i = 0;
  while (i < size && reader->payload[i] == byte_of(number, i)) i++;
  return i == size;
}

static void make_header(unsigned char bytes[RG_FRAME_HEADER], uint64_t length) {
  rg_frame_writer writer;
  rg_frame_begin(&writer, 7, NULL, length);
  memcpy(bytes, &writer.header, RG_FRAME_HEADER);
}

static size_t size_of(uint64_t number) {
  uint64_t seed = number;
  int64_t kind = check_below(&seed, 6);
  return kind == 0 ? 0 : kind == 1 ? (size_t)check_below(&seed, 300000)
                                   : (size_t)check_below(&seed, 2000);
}

TEST(frames_arrive_in_order_and_whole) {
  enum { FRAMES = 400 };
  pair p = new_pair();
  rg_frame_reader reader = {.limit = 1 << 20};
  rg_frame_writer writer;
  unsigned char *bytes = payload_of(0, size_of(0));
  rg_frame_begin(&writer, 0, bytes, size_of(0));
  uint64_t sent = 0, got = 0, idle = 0;
  while (got < FRAMES && idle < 10) {
    idle++;
    while (sent < FRAMES) {
      rg_frame_result result = rg_frame_write(&writer, p.near);
      if (result == RG_FRAME_AGAIN) break;
      CHECK(result == RG_FRAME_WHOLE);
      free(bytes);
      sent++;
      bytes = payload_of(sent, size_of(sent));
      rg_frame_begin(&writer, (uint8_t)sent, bytes, size_of(sent));
    }
    for (rg_frame_result result; (result = rg_frame_read(&reader, p.far)) != RG_FRAME_AGAIN;) {
      CHECK(result == RG_FRAME_WHOLE);
      if (result != RG_FRAME_WHOLE) break;
      CHECK(reader.header.type == (uint8_t)got && is_payload(&reader, got, size_of(got)));
      rg_frame_next(&reader);
      got++;
      idle = 0;
    }
  }
  CHECK(got == FRAMES);
  free(bytes);
  rg_frame_next(&reader);
  free_pair(p);
}

TEST(a_frame_that_comes_byte_by_byte_is_read_and_its_successor_is_not_touched) {
  pair p = new_pair();
  rg_frame_reader reader = {.limit = 100};
  unsigned char wire[RG_FRAME_HEADER + 5];
  make_header(wire, 5);
  for (int i = 0; i < 5; i++) wire[RG_FRAME_HEADER + i] = byte_of(1, (uint64_t)i);
  for (size_t i = 0; i < sizeof wire; i++) {
    CHECK(rg_frame_read(&reader, p.far) == RG_FRAME_AGAIN);
    CHECK(rg_frame_is_begun(&reader) == (i > 0));
    CHECK(send(p.near, wire + i, 1, 0) == 1);
  }
  CHECK(send(p.near, "next", 4, 0) == 4);
  CHECK(rg_frame_read(&reader, p.far) == RG_FRAME_WHOLE);
  CHECK(is_payload(&reader, 1, 5));
  char left[8];
  CHECK(recv(p.far, left, sizeof left, 0) == 4 && memcmp(left, "next", 4) == 0);
  rg_frame_next(&reader);
  free_pair(p);
}

TEST(a_peer_that_leaves_within_a_frame_is_told_from_one_that_leaves_after_it) {
  unsigned char wire[RG_FRAME_HEADER + 9];
  make_header(wire, 9);
  memset(wire + RG_FRAME_HEADER, 1, 9);
  for (size_t cut = 0; cut <= sizeof wire; cut++) {
    pair p = new_pair();
    rg_frame_reader reader = {.limit = 100};
    CHECK(send(p.near, wire, cut, 0) == (ssize_t)cut);
    close(p.near);
    p.near = -1;
    rg_frame_result result = rg_frame_read(&reader, p.far);
    if (cut == sizeof wire) {
      CHECK(result == RG_FRAME_WHOLE);
      rg_frame_next(&reader);
      CHECK(rg_frame_read(&reader, p.far) == RG_FRAME_END);
    } else {
      CHECK(result == (cut == 0 ? RG_FRAME_END : RG_FRAME_TORN));
      CHECK(rg_frame_read(&reader, p.far) == result);
    }
    rg_frame_next(&reader);
    free_pair(p);
  }
}

TEST(a_length_above_the_limit_is_refused_before_any_memory_is_taken) {
  const uint64_t lengths[] = {101, 1u << 30, 1ull << 62, UINT64_MAX, UINT64_MAX - RG_FRAME_HEADER};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    pair p = new_pair();
    rg_frame_reader reader = {.limit = i < 2 ? 100 : UINT64_MAX - 1};
    unsigned char wire[RG_FRAME_HEADER];
    make_header(wire, lengths[i]);
    CHECK(send(p.near, wire, sizeof wire, 0) == RG_FRAME_HEADER);
    int refused = rg_frame_read(&reader, p.far) == RG_FRAME_LONG;
    /* 2^62 is a length that a machine of 64 bits can name: it is believed as far as bytes come */
    CHECK(refused || (lengths[i] <= reader.limit && lengths[i] <= SIZE_MAX / 2));
    CHECK(reader.capacity <= 1 << 16);
    CHECK(send(p.near, "more", 4, 0) == 4);
    CHECK(!refused || rg_frame_read(&reader, p.far) == RG_FRAME_LONG);
    rg_frame_next(&reader);
    free_pair(p);
  }
}

TEST(memory_grows_with_the_bytes_that_have_come) {
  pair p = new_pair();
  rg_frame_reader reader = {.limit = (uint64_t)1 << 40};
  unsigned char wire[RG_FRAME_HEADER], some[1000];
  memset(some, 3, sizeof some);
  make_header(wire, (uint64_t)1 << 39);
  CHECK(send(p.near, wire, sizeof wire, 0) == RG_FRAME_HEADER);
  for (int i = 0; i < 300; i++) {
    CHECK(send(p.near, some, sizeof some, 0) == sizeof some);
    CHECK(rg_frame_read(&reader, p.far) == RG_FRAME_AGAIN);
    CHECK(reader.got == (size_t)(i + 1) * sizeof some);
    CHECK(reader.capacity <= 2 * reader.got + (1 << 16));
  }
  rg_frame_next(&reader);
  free_pair(p);
}

TEST(what_is_no_header_ends_the_reading_at_once) {
  const char *const talk[] = {"GET / HTTP/1.1\r\n\r\n", "S", "rgf2", "rgf", "SSH-2.0-OpenSSH", "\n"};
  for (size_t i = 0; i < sizeof talk / sizeof *talk; i++) {
    pair p = new_pair();
    rg_frame_reader reader = {.limit = 100};
    CHECK(send(p.near, talk[i], strlen(talk[i]), 0) == (ssize_t)strlen(talk[i]));
    int begins_well = strcmp(talk[i], "rgf") == 0;
    CHECK(rg_frame_read(&reader, p.far) == (begins_well ? RG_FRAME_AGAIN : RG_FRAME_BAD));
    CHECK(reader.capacity == 0);
    rg_frame_next(&reader);
    free_pair(p);
  }
  /* every bit of the header that is not type or length */
  for (int bit = 0; bit < 8 * 8; bit++) {
    if (bit / 8 == 4) continue;
    pair p = new_pair();
    rg_frame_reader reader = {.limit = 100};
    unsigned char wire[RG_FRAME_HEADER];
    make_header(wire, 0);
    wire[bit / 8] ^= (unsigned char)(1 << bit % 8);
    CHECK(send(p.near, wire, sizeof wire, 0) == RG_FRAME_HEADER);
    CHECK(rg_frame_read(&reader, p.far) == RG_FRAME_BAD);
    CHECK(rg_frame_read(&reader, p.far) == RG_FRAME_BAD);
    free_pair(p);
  }
}

TEST(noise_makes_no_frame_longer_than_the_limit) {
  uint64_t seed = 11;
  for (int round = 0; round < 3000 / check_stride; round++) {
    pair p = new_pair();
    rg_frame_reader reader = {.limit = 4096};
    unsigned char wire[600];
    size_t size = (size_t)check_below(&seed, sizeof wire);
    for (size_t i = 0; i < sizeof wire; i++) wire[i] = (unsigned char)check_random(&seed);
    /* half of them get so far as the length */
    if (round % 2) make_header(wire, check_random(&seed) >> (8 * check_below(&seed, 8)));
    CHECK(send(p.near, wire, size, 0) == (ssize_t)size);
    close(p.near);
    p.near = -1;
    rg_frame_result result;
    int frames = 0;
    while ((result = rg_frame_read(&reader, p.far)) == RG_FRAME_WHOLE && frames++ < 100) {
      CHECK(reader.length <= 4096);
      rg_frame_next(&reader);
    }
    CHECK(result != RG_FRAME_WHOLE && result != RG_FRAME_AGAIN && result != RG_FRAME_ERROR);
    CHECK(reader.capacity <= 4096);
    rg_frame_next(&reader);
    free_pair(p);
  }
}

TEST(a_writer_whose_peer_has_gone_gets_an_error_and_no_signal) {
  pair p = new_pair();
  close(p.far);
  p.far = -1;
  unsigned char *bytes = payload_of(2, 100000);
  rg_frame_writer writer;
  rg_frame_begin(&writer, 1, bytes, 100000);
  CHECK(rg_frame_write(&writer, p.near) == RG_FRAME_ERROR);
  CHECK(errno == EPIPE || errno == ECONNRESET);
  free(bytes);
  free_pair(p);
}

TEST(addresses_are_found_and_shown) {
  rg_address list[RG_ADDRESS_MAX];
  char text[RG_ADDRESS_TEXT];
  CHECK(rg_socket_resolve("127.0.0.1", 80, 0, list, RG_ADDRESS_MAX) == 1);
  rg_socket_format(&list[0], text);
  CHECK(strcmp(text, "127.0.0.1:80") == 0 && rg_socket_port(&list[0]) == 80);
  CHECK(rg_socket_resolve("::1", 65535, 1, list, RG_ADDRESS_MAX) == 1);
  rg_socket_format(&list[0], text);
  CHECK(strcmp(text, "[::1]:65535") == 0);
  CHECK(rg_socket_path("/tmp/a", &list[0]) == 0);
  rg_socket_format(&list[0], text);
  CHECK(strcmp(text, "unix:/tmp/a") == 0);
  char path[300];
  memset(path, 'x', sizeof path - 1);
  path[sizeof path - 1] = 0;
  CHECK(rg_socket_path(path, &list[0]) < 0 && errno == ENAMETOOLONG);
}
