#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "ring.h"
#include "single-step.h"

/* Every record comes out once, in order and whole, or was never seen. */

static rg_ring *new_ring(void) {
  rg_ring *ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return ring == MAP_FAILED ? NULL : ring;
}

static void free_ring(rg_ring *ring) { munmap(ring, sizeof *ring); }

/* Record `number` has this many bytes, each of them told by the number. */
static uint32_t size_of(int64_t number) {
  uint64_t seed = (uint64_t)number;
  switch (check_below(&seed, 8)) {
  case 0:
    return 0;
  case 1:
    return RG_RECORD_MAX;
  case 2:
    return (uint32_t)check_below(&seed, RG_RECORD_MAX);
  default:
    return (uint32_t)check_below(&seed, 200);
  }
}

static unsigned char byte_of(int64_t number, uint32_t at) {
  return (unsigned char)(number * 31 + at * 7 + 1);
}

static int put(rg_ring *ring, int64_t number) {
  uint32_t size = size_of(number);
  rg_record *record = rg_ring_reserve(ring, size);
  if (!record) return 0;
  unsigned char *payload = rg_record_payload(record);
  for (uint32_t i = 0; i < size; i++) payload[i] = byte_of(number, i);
  record->type = RG_RECORD_VALUE;
  record->element = number;
  record->tries = (int32_t)number + 1;
  rg_ring_commit(ring, record);
  return 1;
}

static int is_record(const rg_record *record, int64_t number) {
  uint32_t size = size_of(number);
  if (record->type != RG_RECORD_VALUE || record->element != number || record->payload != size ||
      record->tries != (int32_t)number + 1 || record->flags || record->kind) {
    return 0;
  }
  const unsigned char *payload = rg_record_payload(record);
  uint32_t i = 0;
  while (i < size && payload[i] == byte_of(number, i)) i++;
  return i == size;
}

/* The oldest record before `end`, NULL also if the ring is damaged. */
static const rg_record *peek(rg_ring *ring, uint64_t end) {
  int damaged;
  return rg_ring_peek(ring, end, &damaged);
}

/* Takes all that is there, the first of which is record `number`; the number of the next one, or
   -1 if something else came. */
static int64_t take_all(rg_ring *ring, int64_t number) {
  uint64_t end = rg_ring_end(ring);
  for (const rg_record *record; (record = peek(ring, end)) != NULL; number++) {
    if (!is_record(record, number)) return -1;
    rg_ring_release(ring, record);
  }
  return number;
}

TEST(a_ring_gives_records_in_order_and_whole_round_after_round) {
  rg_ring *ring = new_ring();
  uint64_t seed = 3;
  int64_t produced = 0, consumed = 0;
  while (produced < 20000) {
    for (int64_t some = check_below(&seed, 60); some > 0 && put(ring, produced); some--) produced++;
    if (check_below(&seed, 3) == 0) consumed = take_all(ring, consumed);
    if (consumed < 0) break;
  }
  CHECK(take_all(ring, consumed) == produced);
  CHECK(rg_ring_unread(ring) == 0);
  free_ring(ring);
}

TEST(a_ring_is_filled_to_its_end_and_no_further) {
  rg_ring *ring = new_ring();
  enum { HEADER = sizeof(rg_record), PAYLOAD = 8 };
  /* every place of the ring for the first record of the second round */
  for (int64_t at = 0; at < 4000; at++) {
    int64_t records = 0;
    while (rg_ring_reserve(ring, PAYLOAD)) {
      rg_record *record = rg_ring_reserve(ring, PAYLOAD);
      record->type = RG_RECORD_VALUE;
      record->element = records++;
      rg_ring_commit(ring, record);
      if (records > RG_RING_SIZE) break;
    }
    CHECK(rg_ring_unread(ring) <= RG_RING_SIZE);
    CHECK(rg_ring_unread(ring) > RG_RING_SIZE - 2 * (HEADER + PAYLOAD));
    uint64_t end = rg_ring_end(ring);
    int64_t seen = 0;
    for (const rg_record *record; (record = peek(ring, end)) != NULL;) {
      if (record->element != seen++) break;
      rg_ring_release(ring, record);
    }
    CHECK(seen == records);
    rg_record *shift = rg_ring_reserve(ring, (uint32_t)(8 * (at % 5)));
    shift->type = RG_RECORD_VALUE;
    rg_ring_commit(ring, shift);
    const rg_record *back = peek(ring, rg_ring_end(ring));
    CHECK(back == shift);
    rg_ring_release(ring, back);
    if (at % 64 > 2) at += 60; /* each filling is a megabyte */
  }
  free_ring(ring);
}

TEST(a_reader_sees_no_further_than_the_end_it_asked_for) {
  rg_ring *ring = new_ring();
  put(ring, 0);
  uint64_t end = rg_ring_end(ring);
  put(ring, 1);
  const rg_record *record = peek(ring, end);
  CHECK(record && is_record(record, 0));
  rg_ring_release(ring, record);
  CHECK(peek(ring, end) == NULL);
  CHECK(take_all(ring, 1) == 2);
  free_ring(ring);
}

TEST(a_reserved_record_is_not_there_before_it_is_committed) {
  rg_ring *ring = new_ring();
  rg_record *record = rg_ring_reserve(ring, 100);
  record->type = RG_RECORD_VALUE;
  CHECK(rg_ring_unread(ring) == 0);
  CHECK(peek(ring, rg_ring_end(ring)) == NULL);
  free_ring(ring);
}

/* Damage: what stray writes of the producer's code can do to a header. */

typedef struct {
  const char *what;
  int offset, bytes;
  uint32_t value;
} stray;

TEST(a_header_that_cannot_be_is_not_believed) {
  const stray strays[] = {
    {"size 0", 0, 4, 0},
    {"size below a header", 0, 4, 16},
    {"size that is not of whole words", 0, 4, 45},
    {"size beyond what was written", 0, 4, 4096},
    {"size beyond the ring", 0, 4, RG_RING_SIZE + 8},
    {"size of -8", 0, 4, 0xfffffff8u},
    {"unknown type", 4, 1, RG_RECORD_LAST + 1},
    {"a skip in the middle", 4, 1, RG_RECORD_SKIP},
    {"payload larger than the record", 20, 4, 1000},
    {"payload of -1", 20, 4, 0xffffffffu},
    {"another element", 8, 8, 4},
    {"another type", 4, 1, RG_RECORD_ERROR},
    {"a flag", 5, 1, RG_RECORD_STORED},
  };
  for (size_t i = 0; i < sizeof strays / sizeof *strays; i++) {
    rg_ring *ring = new_ring();
    put(ring, 3);
    rg_record *record = (rg_record *)ring->bytes;
    int damaged = 0;
    CHECK(rg_ring_peek(ring, rg_ring_end(ring), &damaged) == record && !damaged);
    memcpy((char *)record + strays[i].offset, &strays[i].value, (size_t)strays[i].bytes);
    CHECK(rg_ring_peek(ring, rg_ring_end(ring), &damaged) == NULL);
    if (!damaged) printf("FAILED believed: %s\n", strays[i].what);
    CHECK(damaged);
    free_ring(ring);
  }
}

TEST(a_payload_of_which_any_bit_was_overwritten_is_not_intact) {
  const uint32_t sizes[] = {1, 8, 31, 32, 33, 700};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    rg_ring *ring = new_ring();
    rg_record *record = rg_ring_reserve(ring, sizes[i]);
    record->type = RG_RECORD_VALUE;
    char *payload = rg_record_payload(record);
    for (uint32_t at = 0; at < sizes[i]; at++) payload[at] = (char)(at * 7);
    rg_ring_commit(ring, record);
    CHECK(rg_record_is_intact(record));
    int64_t believed = 0;
    for (uint32_t bit = 0; bit < 8 * sizes[i]; bit++) {
      payload[bit / 8] ^= (char)(1 << bit % 8);
      believed += rg_record_is_intact(record);
      payload[bit / 8] ^= (char)(1 << bit % 8);
    }
    CHECK(believed == 0);
    CHECK(peek(ring, rg_ring_end(ring)) == record && rg_record_is_intact(record));
    free_ring(ring);
  }
}

TEST(counts_of_bytes_that_cannot_be_are_not_believed) {
  const uint64_t heads[] = {RG_RING_SIZE + 8, 4, 7, UINT64_MAX - 7};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    rg_ring *ring = new_ring();
    put(ring, 3);
    int damaged = 0;
    atomic_store(&ring->head, heads[i]);
    CHECK(rg_ring_peek(ring, rg_ring_end(ring), &damaged) == NULL && damaged);
    atomic_store(&ring->head, 64);
    atomic_store(&ring->tail, 128); /* more consumed than produced */
    CHECK(rg_ring_peek(ring, rg_ring_end(ring), &damaged) == NULL && damaged);
    free_ring(ring);
  }
}

/* Whatever stands in the memory: no read outside of it (which the sanitizers would tell), an end. */
TEST(a_ring_full_of_noise_is_read_to_an_end) {
  uint64_t seed = 13;
  rg_ring *ring = malloc(sizeof *ring);
  for (int round = 0; round < 200; round++) {
    uint64_t *words = (uint64_t *)(void *)ring;
    for (size_t i = 0; i < sizeof *ring / 8; i += 1 + (size_t)check_below(&seed, 3)) {
      words[i] = check_random(&seed) & check_random(&seed);
    }
    uint64_t tail = (uint64_t)check_below(&seed, RG_RING_SIZE / 8) * 8;
    atomic_store(&ring->tail, tail);
    atomic_store(&ring->head, tail + (uint64_t)check_below(&seed, RG_RING_SIZE / 8 + 1) * 8);
    int damaged = 0, sum = 0, seen = 0;
    for (const rg_record *record;
         (record = rg_ring_peek(ring, rg_ring_end(ring), &damaged)) != NULL; seen++) {
      const char *payload = rg_record_payload(record);
      for (uint32_t i = 0; i < record->payload; i++) sum += payload[i];
      rg_ring_release(ring, record);
      if (seen > RG_RING_SIZE / 8) break;
    }
    CHECK(seen <= RG_RING_SIZE / 8);
    CHECK(damaged || rg_ring_unread(ring) == 0);
    (void)sum;
  }
  free(ring);
}

/* Deaths of the producer. */

typedef struct {
  rg_ring *ring;
  int64_t first, count;
} production;

static void produce(void *state) {
  production *p = state;
  for (int64_t i = 0; i < p->count; i++) put(p->ring, p->first + i);
}

/* So far round that the next record has to skip the end of the ring. */
static int64_t fill_to_the_brim(rg_ring *ring) {
  int64_t number = 0;
  while (rg_ring_end(ring) < RG_RING_SIZE - 64) {
    uint64_t at = rg_ring_end(ring) % RG_RING_SIZE;
    uint32_t left = (uint32_t)(RG_RING_SIZE - at - 24 - 32);
    rg_record *record = rg_ring_reserve(ring, left < 8000 ? left & ~7u : 8000);
    record->type = RG_RECORD_CONDITION;
    rg_ring_commit(ring, record);
    rg_ring_release(ring, peek(ring, rg_ring_end(ring)));
    number++;
  }
  return number;
}

TEST(a_producer_killed_at_any_instruction_leaves_no_half_record) {
  /* the shortest records of several sizes, which end round the ring */
  int64_t first = 0;
  while (size_of(first) > 40 || size_of(first + 1) > 40 || size_of(first) < 16) first++;
  int lengths[3] = {0};
  for (long n = 0; n < 20000; n += check_stride) {
    rg_ring *ring = new_ring();
    fill_to_the_brim(ring);
    production p = {ring, first, 2};
    step_end end = step_and_kill(n, produce, &p);
    if (end == STEP_REFUSED) {
      check_skip("no process may be traced here");
      free_ring(ring);
      return;
    }
    CHECK(end != STEP_BROKEN);
    int64_t next = take_all(ring, first);
    CHECK(next >= first && next <= first + 2);
    if (next >= first && next <= first + 2) lengths[next - first]++;
    /* its successor writes on */
    CHECK(put(ring, next));
    CHECK(take_all(ring, next) == next + 1);
    free_ring(ring);
    if (end == STEP_ENDED) break;
  }
  CHECK(lengths[0] > 0 && lengths[1] > 0 && lengths[2] > 0);
}

/* A thread that writes and one that reads, for the thread sanitizer too. */

enum { STREAM = 30000 };

static void *write_stream(void *state) {
  for (int64_t i = 0; i < STREAM; i++) {
    while (!put(state, i)) sched_yield();
  }
  return NULL;
}

TEST(records_pass_whole_between_threads) {
  rg_ring *ring = new_ring();
  pthread_t writer;
  pthread_create(&writer, NULL, write_stream, ring);
  int64_t next = 0;
  while (next >= 0 && next < STREAM) {
    next = take_all(ring, next);
    sched_yield();
  }
  CHECK(next == STREAM);
  if (next >= 0) pthread_join(writer, NULL);
  free_ring(ring);
}
