/* A ring of three records at most: two of every size from every place on, and every damage to it. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern uint64_t nondet_number(void);
extern uint8_t nondet_byte(void);

/* In place of the checksum, whose multiplications are beyond the checker: reads the same bytes. Of what was
   damaged it may say anything. */
#define RG_CHECKSUM_H
static int anything;
static uint32_t rg_checksum(const void *bytes, size_t size) {
  __CPROVER_assert(__CPROVER_r_ok(bytes, size), "what is summed is there");
  return anything ? (uint32_t)nondet_number() : (uint32_t)(size > 0 ? ((const uint8_t *)bytes)[size - 1] : 0);
}

#include "ring.c"

static rg_ring ring;

/* What is committed is read, in its order, with its sizes and content, wherever in the ring it begins. */
void check_order(void) {
  uint64_t start = nondet_number();
  __CPROVER_assume(start % 8 == 0 && start < 2 * RG_RING_SIZE);
  atomic_store(&ring.head, start);
  atomic_store(&ring.tail, start);
  uint32_t sizes[2];
  uint32_t watched[2]; /* a byte of each, whichever */
  uint8_t marks[2];
  int written = 0;
  for (int i = 0; i < 2; i++) {
    uint32_t size = (uint32_t)nondet_number();
    __CPROVER_assume(size <= RG_RECORD_MAX);
    rg_record *record = rg_ring_reserve(&ring, size);
    if (!record) break;
    __CPROVER_assert((char *)record >= ring.bytes &&
                         (char *)record + record->size <= ring.bytes + RG_RING_SIZE,
                     "the record lies in the ring");
    record->type = RG_RECORD_VALUE;
    record->element = i;
    record->tries = 0;
    sizes[i] = size;
    marks[i] = nondet_byte();
    watched[i] = (uint32_t)nondet_number();
    __CPROVER_assume(watched[i] < size || (watched[i] == 0 && size == 0));
    if (size > 0) ((uint8_t *)rg_record_payload(record))[watched[i]] = marks[i];
    rg_ring_commit(&ring, record);
    written++;
  }
  __CPROVER_assert(written > 0, "an empty ring has room for the longest record");
  uint64_t end = rg_ring_end(&ring);
  for (int i = 0; i < written; i++) {
    int damaged;
    const rg_record *record = rg_ring_peek(&ring, end, &damaged);
    __CPROVER_assert(record && !damaged, "what was committed is there");
    __CPROVER_assert(record->element == i && record->payload == sizes[i], "in its order");
    __CPROVER_assert(rg_record_is_intact(record), "and whole");
    __CPROVER_assert(sizes[i] == 0 || ((uint8_t *)rg_record_payload(record))[watched[i]] == marks[i],
                     "with its content");
    rg_ring_release(&ring, record);
  }
  int damaged;
  __CPROVER_assert(!rg_ring_peek(&ring, end, &damaged) && !damaged, "and nothing else");
}

/* Whatever bytes stand in the ring, and whatever its two counters say: nothing outside of it is read,
   and reading ends. That each access lies in its object is asserted by the checker. */
void check_damage(void) {
  anything = 1;
  rg_ring any;
  ring = any;
  uint64_t end = nondet_number();
  int damaged;
  const rg_record *record = rg_ring_peek(&ring, end, &damaged);
  __CPROVER_assert(!record || !damaged, "damage is told or a record is given");
  if (!record) return;
  const char *payload = rg_record_payload(record);
  __CPROVER_assert(payload >= ring.bytes && payload + record->payload <= ring.bytes + RG_RING_SIZE,
                   "the payload lies in the ring");
  __CPROVER_assert(record->type != RG_RECORD_SKIP && record->type <= RG_RECORD_LAST, "its type is one of ours");
  rg_record_is_intact(record);
}
