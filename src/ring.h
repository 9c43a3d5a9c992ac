#ifndef RG_RING_H
#define RG_RING_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Event ring: one producer (a worker), one consumer (the parent), no lock. A record is
 * seen by the consumer only after all of its bytes: `head` is stored with release order
 * after them, so a producer that dies half way leaves nothing half written behind.
 *
 *   record = rg_record header (32 bytes) + payload, padded to a multiple of 8
 *
 * A record never wraps: where it would not fit before the end of the ring, the rest of
 * the ring is skipped by a record of type RG_RECORD_SKIP.
 */

enum { RG_RING_SIZE = 1024 * 1024, RG_RECORD_MAX = 32 * 1024 };

typedef enum {
  RG_RECORD_SKIP = 0,
  RG_RECORD_VALUE,      /* payload: the encoded value of an element */
  RG_RECORD_ERROR,      /* payload: the encoded record of its error */
  RG_RECORD_CONDITION,  /* payload: an encoded condition */
  RG_RECORD_SUPPRESSED, /* payload: int64 count of conditions that were not sent */
  RG_RECORD_OUTPUT,     /* payload: int64 ends[RG_STREAMS], the streams' lengths when
                           the element ended */
  RG_RECORD_LAST = RG_RECORD_OUTPUT
} rg_record_type;

enum {
  RG_RECORD_STORED = 1, /* the payload is in the arena: an rg_span and its length stand here */
  RG_RECORD_PART = 2    /* the payload goes on in the next record of this ring */
};

typedef struct {
  uint32_t size; /* header and payload, a multiple of 8 */
  uint8_t type;
  uint8_t flags;
  uint8_t kind; /* of a condition or an error, see evaluator.h */
  uint8_t unused;
  int64_t element;
  int32_t tries;
  uint32_t payload; /* bytes used of the payload */
  uint32_t header_sum;  /* of the members above and of the payload: checksums, made by rg_ring_commit() */
  uint32_t payload_sum;
} rg_record;

typedef struct {
  _Atomic uint64_t head; /* bytes ever produced */
  _Atomic uint64_t tail; /* bytes ever consumed */
  char bytes[RG_RING_SIZE];
} rg_ring;

/* Room for a record with `payload` bytes (at most RG_RECORD_MAX), or NULL if the ring is
   too full now. The record becomes visible with rg_ring_commit(). */
rg_record *rg_ring_reserve(rg_ring *ring, uint32_t payload);
void rg_ring_commit(rg_ring *ring, rg_record *record);

/* The end of what has been committed so far. */
uint64_t rg_ring_end(rg_ring *ring);

/* The oldest record before `end` that was not released yet, or NULL. Valid until
   rg_ring_release(). A reader that asked for no end could follow a busy writer for ever.
   The ring lies in memory that foreign code in the producer can write to by mistake: a header
   that is not what was committed is not believed. *damaged is set then, and NULL is returned: nothing
   more can be read from this ring. */
const rg_record *rg_ring_peek(rg_ring *ring, uint64_t end, int *damaged);
void rg_ring_release(rg_ring *ring, const rg_record *record);

/* Whether the payload is what was committed, too. */
int rg_record_is_intact(const rg_record *record);

/* Bytes that the consumer has not released yet. */
static inline uint64_t rg_ring_unread(const rg_ring *ring) {
  return atomic_load_explicit(&ring->head, memory_order_acquire) -
         atomic_load_explicit(&ring->tail, memory_order_acquire);
}

static inline void *rg_record_payload(const rg_record *record) {
  return (char *)record + sizeof(rg_record);
}

#endif
