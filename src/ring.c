#include "ring.h"

#include <stddef.h>
#include <string.h>

#include "checksum.h"
#include "sys-layout.h"

RG_LAYOUT_SIZE(rg_ring, 1048592);
RG_LAYOUT(rg_ring, head, 0, 8);
RG_LAYOUT(rg_ring, tail, 8, 8);
RG_LAYOUT(rg_ring, bytes, 16, 1048576);

RG_LAYOUT_SIZE(rg_record, 32);
RG_LAYOUT(rg_record, size, 0, 4);
RG_LAYOUT(rg_record, type, 4, 1);
RG_LAYOUT(rg_record, flags, 5, 1);
RG_LAYOUT(rg_record, kind, 6, 1);
RG_LAYOUT(rg_record, unused, 7, 1);
RG_LAYOUT(rg_record, element, 8, 8);
RG_LAYOUT(rg_record, tries, 16, 4);
RG_LAYOUT(rg_record, payload, 20, 4);
RG_LAYOUT(rg_record, header_sum, 24, 4);
RG_LAYOUT(rg_record, payload_sum, 28, 4);

static uint32_t padded(uint32_t payload) {
  return (uint32_t)(sizeof(rg_record) + payload + 7) & ~7u;
}

static uint32_t sum_of_header(const rg_record *record) {
  return rg_checksum(record, offsetof(rg_record, header_sum));
}

static uint32_t sum_of_payload(const rg_record *record) {
  return rg_checksum(rg_record_payload(record), record->payload);
}

rg_record *rg_ring_reserve(rg_ring *ring, uint32_t payload) {
  uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
  uint32_t size = padded(payload);
  uint64_t at = head % RG_RING_SIZE;
  uint64_t skip = at + size > RG_RING_SIZE ? RG_RING_SIZE - at : 0;
  if (head - tail + skip + size > RG_RING_SIZE) return NULL;
  if (skip) {
    /* What is left may be shorter than a header, so only `size` and `type` are set;
       they fit, since every offset is a multiple of 8. */
    rg_record *filler = (rg_record *)(ring->bytes + at);
    filler->size = (uint32_t)skip;
    filler->type = RG_RECORD_SKIP;
    atomic_store_explicit(&ring->head, head + skip, memory_order_release);
    at = 0;
  }
  rg_record *record = (rg_record *)(ring->bytes + at);
  record->size = size;
  record->payload = payload;
  record->flags = record->kind = record->unused = 0;
  return record;
}

void rg_ring_commit(rg_ring *ring, rg_record *record) {
  record->header_sum = sum_of_header(record);
  record->payload_sum = sum_of_payload(record);
  uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
  atomic_store_explicit(&ring->head, head + record->size, memory_order_release);
}

uint64_t rg_ring_end(rg_ring *ring) {
  return atomic_load_explicit(&ring->head, memory_order_acquire);
}

/* A skip may be shorter than a header: of that only size and type are looked at. */
static int is_sound(const rg_record *record, uint64_t at, uint64_t left) {
  uint64_t size = record->size;
  if (size < 8 || size % 8 != 0 || size > left || at + size > RG_RING_SIZE) return 0;
  if (record->type == RG_RECORD_SKIP) return at + size == RG_RING_SIZE;
  return record->type <= RG_RECORD_LAST && size >= sizeof *record &&
         record->payload <= RG_RECORD_MAX && size == padded(record->payload) &&
         record->header_sum == sum_of_header(record);
}

int rg_record_is_intact(const rg_record *record) {
  return record->payload_sum == sum_of_payload(record);
}

const rg_record *rg_ring_peek(rg_ring *ring, uint64_t end, int *damaged) {
  *damaged = 0;
  for (;;) {
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t at = tail % RG_RING_SIZE;
    if (tail == end) return NULL;
    const rg_record *record = (const rg_record *)(ring->bytes + at);
    if (tail > end || end - tail > RG_RING_SIZE || at % 8 != 0 || !is_sound(record, at, end - tail)) {
      *damaged = 1;
      return NULL;
    }
    if (record->type != RG_RECORD_SKIP) return record;
    rg_ring_release(ring, record);
  }
}

void rg_ring_release(rg_ring *ring, const rg_record *record) {
  uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
  atomic_store_explicit(&ring->tail, tail + record->size, memory_order_release);
}
