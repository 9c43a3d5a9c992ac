#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "link.h"
#include "sys-clock.h"

/* What is sent arrives whole and in order, or the link is lost; and whoever is at the other end, nobody waits. */

static const rg_link_settings usual = {.interval = 0.05, .deadline = 30, .silence = 30, .limit = 1 << 24};

static void nap(void) {
  const struct timespec pause = {0, 500000};
  nanosleep(&pause, NULL);
}

static const int64_t second = 1000000000;

static void pair_of(int ends[2]) {
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
}

/* The link is at `ends[0]`, the test itself at the other end. */
static rg_link *link_to(int ends[2], const rg_link_settings *settings) {
  pair_of(ends);
  rg_link *link = rg_link_open(ends[0], settings);
  CHECK(link != NULL);
  return link;
}

/* Message number `n`: its length and bytes follow from that. */
static unsigned char *message_of(uint64_t n, uint64_t *length) {
  uint64_t seed = n * 31 + 7;
  *length = (uint64_t)check_below(&seed, check_below(&seed, 10) ? 2000 : 300000 / check_stride);
  unsigned char *bytes = malloc(*length + 8);
  for (uint64_t i = 0; i < *length; i++) bytes[i] = (unsigned char)(n + i * 7);
  return bytes;
}

static int is_message(uint64_t n, const unsigned char *bytes, uint64_t length) {
  uint64_t right;
  unsigned char *all = message_of(n, &right);
  int same = length == right && memcmp(all, bytes, right) == 0;
  free(all);
  return same;
}

static int send_message(rg_link *link, uint64_t n) {
  uint64_t length;
  unsigned char *bytes = message_of(n, &length);
  return rg_link_send(link, RG_LINK_VALUE, bytes, length);
}

/* The view once the link is open no more; CHECKs that this comes. */
static rg_link_view end_of(rg_link *link) {
  rg_link_view view;
  const int64_t until = rg_clock_now() + 20 * second;
  do {
    rg_link_look(link, &view);
    if (view.state != RG_LINK_OPEN) break;
    nap();
  } while (rg_clock_now() < until);
  CHECK(view.state != RG_LINK_OPEN);
  return view;
}

/* Both ways at once, from two threads that send and the test that takes. */

typedef struct {
  rg_link *link;
  uint64_t count;
  int sent;
} sender;

static void *send_all(void *data) {
  sender *all = data;
  for (uint64_t n = 0; n < all->count; n++) all->sent += send_message(all->link, n) == 0;
  return NULL;
}

TEST(link_threads_send_both_ways_and_all_arrives_in_order) {
  const uint64_t count = 2000 / (uint64_t)check_stride;
  int ends[2];
  pair_of(ends);
  rg_link *link[2];
  pthread_t thread[2];
  sender all[2];
  uint64_t taken[2] = {0, 0}, wrong = 0;
  for (int i = 0; i < 2; i++) {
    link[i] = rg_link_open(ends[i], &usual);
    CHECK(link[i] != NULL);
    all[i] = (sender){link[i], count, 0};
  }
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, send_all, &all[i]) == 0);
  const int64_t until = rg_clock_now() + 120 * second;
  while ((taken[0] < count || taken[1] < count) && rg_clock_now() < until) {
    int none = 1;
    for (int i = 0; i < 2; i++) {
      unsigned char *payload;
      uint64_t length;
      if (!rg_link_take(link[i], &payload, &length)) continue;
      wrong += !is_message(taken[i]++, payload, length);
      free(payload);
      none = 0;
    }
    rg_link_view view;
    rg_link_look(link[0], &view);
    rg_link_news_seen();
    if (none) nap();
  }
  CHECK(wrong == 0);
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK(taken[i] == count && all[i].sent == (int)count);
  }
  for (int i = 0; i < 2; i++) rg_link_close(link[i], 0);
}

/* Links that come and go while others work. */
TEST(link_threads_open_and_close_links) {
  for (int round = 0; round < 200 / check_stride; round++) {
    int ends[2];
    pair_of(ends);
    rg_link *one = rg_link_open(ends[0], &usual), *two = rg_link_open(ends[1], &usual);
    CHECK(one && two);
    CHECK(send_message(one, (uint64_t)round) == 0);
    rg_link_close(one, 5);
    rg_link_view view = end_of(two);
    CHECK(view.state == RG_LINK_ENDED);
    unsigned char *payload = NULL;
    uint64_t length = 0;
    CHECK(rg_link_take(two, &payload, &length) == 1 && is_message((uint64_t)round, payload, length));
    free(payload);
    CHECK(send_message(two, 1) == -1);
    rg_link_close(two, 5);
  }
}

TEST(link_tells_that_it_lives) {
  int ends[2];
  pair_of(ends);
  rg_link *one = rg_link_open(ends[0], &usual), *two = rg_link_open(ends[1], &usual);
  rg_link_view view;
  const int64_t until = rg_clock_now() + 20 * second;
  do {
    nap();
    rg_link_look(two, &view);
  } while (view.memory == 0 && rg_clock_now() < until);
  CHECK(view.state == RG_LINK_OPEN && view.memory > 0 && view.cpu_ns > 0 && view.received == 0);
  rg_link_close(one, 0);
  rg_link_close(two, 0);
}

static void header_of(rg_frame_header *header, uint8_t type, uint64_t length) {
  rg_frame_writer writer;
  rg_frame_begin(&writer, type, NULL, length);
  *header = writer.header;
}

TEST(link_is_lost_by_what_is_no_frame) {
  uint64_t seed = 23;
  for (int round = 0; round < 60; round++) {
    int ends[2];
    rg_link *link = link_to(ends, &usual);
    rg_frame_header header;
    rg_frame_result right = RG_FRAME_BAD;
    header_of(&header, RG_LINK_VALUE, 5);
    switch (round % 4) {
    case 0: /* any bytes */
      for (size_t i = 0; i < sizeof header; i++) ((unsigned char *)&header)[i] = (unsigned char)check_random(&seed);
      header.magic[0] = 'x';
      break;
    case 1: /* one that is told of bytes that R would never read */
      header_of(&header, RG_LINK_VALUE, usual.limit + 1 + (uint64_t)check_below(&seed, 1000));
      right = RG_FRAME_LONG;
      break;
    case 2: /* a type that no link has */
      header_of(&header, (uint8_t)(4 + check_below(&seed, 200)), 0);
      break;
    default: /* what is kept free */
      header.unused[check_below(&seed, 3)] = 1;
    }
    CHECK(send(ends[1], &header, sizeof header, 0) == sizeof header);
    rg_link_view view = end_of(link);
    CHECK(view.state == RG_LINK_LOST && view.result == right);
    rg_link_close(link, 0);
    close(ends[1]);
  }
}

/* After any byte of a frame; between two frames it is an end. */
TEST(link_knows_a_torn_frame_from_an_end) {
  enum { PAYLOAD = 20 };
  unsigned char bytes[sizeof(rg_frame_header) + PAYLOAD] = {0};
  header_of((rg_frame_header *)bytes, RG_LINK_VALUE, PAYLOAD);
  for (size_t size = 0; size <= sizeof bytes; size++) {
    int ends[2];
    rg_link *link = link_to(ends, &usual);
    CHECK(send(ends[1], bytes, size, 0) == (ssize_t)size);
    CHECK(shutdown(ends[1], SHUT_WR) == 0); /* not closed: what the link has sent is not read */
    rg_link_view view = end_of(link);
    const int is_whole = size == 0 || size == sizeof bytes;
    CHECK(view.state == (is_whole ? RG_LINK_ENDED : RG_LINK_LOST));
    CHECK(view.result == (is_whole ? RG_FRAME_END : RG_FRAME_TORN));
    unsigned char *payload;
    uint64_t length;
    CHECK(rg_link_take(link, &payload, &length) == (size == sizeof bytes));
    if (size == sizeof bytes) free(payload);
    rg_link_close(link, 0);
    close(ends[1]);
  }
}

/* A peer that takes nothing: what cannot go waits, nobody else does, and closing does not wait for ever. */
TEST(link_to_one_who_takes_nothing) {
  int ends[2];
  rg_link *link = link_to(ends, &usual);
  rg_link_view view;
  for (int i = 0; i < 40; i++) CHECK(rg_link_send(link, RG_LINK_VALUE, calloc(1, 100000), 100000) == 0);
  rg_link_look(link, &view);
  CHECK(view.state == RG_LINK_OPEN && view.unsent > 0);
  const int64_t begun = rg_clock_now();
  rg_link_close(link, 0.1);
  CHECK(rg_clock_now() - begun < 10 * second);
  /* The end comes after what has gone, by itself. */
  char some[65536];
  ssize_t got;
  int64_t all = 0;
  const int64_t until = rg_clock_now() + 20 * second;
  fcntl(ends[1], F_SETFL, 0);
  while ((got = recv(ends[1], some, sizeof some, 0)) > 0 && rg_clock_now() < until) {
    all += got;
    if (all < 200000) nap();
  }
  CHECK(got == 0);
  close(ends[1]);
}

/* A process that somebody forks has no part in the links, and does not keep them open. */
TEST(link_is_lost_in_a_fork_and_goes_on_in_its_owner) {
  int ends[2], told[2];
  pair_of(ends);
  CHECK(pipe(told) == 0);
  rg_link *one = rg_link_open(ends[0], &usual), *two = rg_link_open(ends[1], &usual);
  for (uint64_t n = 0; n < 5; n++) CHECK(send_message(one, n) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    rg_link_view view;
    int ends_here[2], bad = 0;
    rg_link_look(one, &view);
    bad |= view.state != RG_LINK_LOST;
    bad |= send_message(one, 1) != -1;
    /* It may have links of its own. */
    rg_link *own = link_to(ends_here, &usual);
    bad |= send_message(own, 3) != 0;
    rg_link_close(own, 1);
    char byte;
    bad |= read(told[0], &byte, 1) != 1; /* it outlives the links, which it has not closed */
    rg_link_close(one, 5);
    rg_link_close(two, 5);
    _exit(bad);
  }
  for (uint64_t n = 5; n < 10; n++) CHECK(send_message(one, n) == 0);
  rg_link_close(one, 5);
  CHECK(end_of(two).state == RG_LINK_ENDED);
  for (uint64_t n = 0; n < 10; n++) {
    unsigned char *payload;
    uint64_t length;
    CHECK(rg_link_take(two, &payload, &length) == 1);
    CHECK(is_message(n, payload, length));
    free(payload);
  }
  CHECK(write(told[1], "x", 1) == 1);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  rg_link_close(two, 0);
  close(told[0]);
  close(told[1]);
}

/* A node whose session was killed, or that is told to end, ends itself and leaves no folder, while what would
   be R computes on. */
static void node_main(int fd, const char *folder) {
  rg_link_settings settings = usual;
  settings.is_node = 1;
  signal(SIGINT, SIG_IGN); /* it is stuck */
  rg_link_heed_signals();
  if (!rg_link_open(fd, &settings)) _exit(99);
  rg_link_end_with_session(folder);
  for (;;) pause();
}

TEST(link_ends_a_node_with_its_session) {
  for (int told = 0; told < 2; told++) {
    char folder[] = "/tmp/regatta-link-XXXXXX", inner[64];
    int ends[2], status = 0;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(inner, sizeof inner, "%s/file", folder);
    close(open(inner, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    pair_of(ends);
    pid_t node = fork();
    if (node == 0) {
      close(ends[1]);
      node_main(ends[0], folder);
    }
    close(ends[0]);
    /* Its first sign of life: it has begun to look. */
    char byte;
    fcntl(ends[1], F_SETFL, 0);
    CHECK(recv(ends[1], &byte, 1, 0) == 1);
    if (told) {
      nap();
      CHECK(kill(node, SIGTERM) == 0);
    } else {
      close(ends[1]);
    }
    CHECK(waitpid(node, &status, 0) == node);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (told ? 128 + SIGTERM : 1));
    CHECK(access(folder, F_OK) < 0 && errno == ENOENT);
    if (told) close(ends[1]);
  }
}
