/* Frames of up to 8 bytes from a peer that sends what it likes, in pieces of any size, and takes what is
   written in such pieces. Of the bytes on the way one is watched, whichever. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { PAYLOAD = 8, CALLS = 3 };

/* The one block of memory that a reader has, `room` of its bytes given. */
static uint8_t block[PAYLOAD];
static size_t room;
void *given_memory(void *old, size_t size) {
  __CPROVER_assert((old == NULL) == (room == 0) && size > room && size <= PAYLOAD, "it grows, within the limit");
  room = size;
  return block;
}
void taken_memory(void *old) { __CPROVER_assert(old == NULL || old == (void *)block, "what was given is freed"); }
#define realloc given_memory
#define free taken_memory
#include "frame.c"

extern uint64_t nondet_number(void);
extern int nondet_choice(void);

static size_t moved, watched;
static uint8_t seen;
static int calls;

/* How many of `size` bytes the system moves, as often as CALLS times. */
static ssize_t piece(size_t size) {
  __CPROVER_assert(size > 0, "something is asked for");
  if (++calls > CALLS || nondet_choice()) {
    errno = nondet_choice() ? EAGAIN : ECONNRESET;
    return -1;
  }
  size_t n = (size_t)nondet_number();
  __CPROVER_assume(n <= size);
  return (ssize_t)n;
}

ssize_t rg_socket_recv(int fd, void *to, size_t size) {
  uint8_t *at = to;
  if (__CPROVER_same_object(at, block)) {
    __CPROVER_assert(at >= block && size <= (size_t)(block + room - at), "there is room for what is read");
  }
  __CPROVER_assert(__CPROVER_w_ok(to, size), "within an object");
  /* What it is read into may hold anything before, so that only the watched byte has to be put there. */
  ssize_t n = piece(size);
  if (n <= 0) return n;
  if (watched >= moved && watched - moved < (size_t)n) ((uint8_t *)to)[watched - moved] = seen;
  moved += (size_t)n;
  return n;
}

ssize_t rg_socket_send(int fd, const void *from, size_t size) {
  __CPROVER_assert(__CPROVER_r_ok(from, size), "what is sent is there");
  ssize_t n = piece(size);
  if (n <= 0) return n;
  if (watched >= moved && watched - moved < (size_t)n) seen = ((const uint8_t *)from)[watched - moved];
  moved += (size_t)n;
  return n;
}

void check_reader(void) {
  watched = (size_t)nondet_number();
  seen = (uint8_t)nondet_number();
  rg_frame_reader reader = {.limit = nondet_number()};
  __CPROVER_assume(reader.limit <= PAYLOAD);
  rg_frame_header any;
  reader.header = any;
  rg_frame_result result = rg_frame_read(&reader, 0);
  __CPROVER_assert(reader.got <= reader.capacity && reader.capacity <= reader.limit,
                   "no more memory than the limit");
  __CPROVER_assert(moved == reader.header_got + reader.got, "nothing of the next frame is read");
  if (result == RG_FRAME_WHOLE) {
    __CPROVER_assert(reader.header.magic[0] == 'r' && reader.header.magic[3] == '1', "it has its magic");
    __CPROVER_assert(reader.got == reader.length && reader.header_got == RG_FRAME_HEADER, "a whole frame is whole");
    __CPROVER_assume(watched >= RG_FRAME_HEADER && watched < moved);
    __CPROVER_assert(reader.payload[watched - RG_FRAME_HEADER] == seen, "with what was sent");
  } else if (result != RG_FRAME_AGAIN) {
    __CPROVER_assert(rg_frame_read(&reader, 0) == result, "what has ended stays ended");
  }
  rg_frame_next(&reader);
}

void check_writer(void) {
  watched = (size_t)nondet_number();
  uint8_t payload[PAYLOAD];
  uint64_t length = nondet_number();
  __CPROVER_assume(length <= PAYLOAD);
  rg_frame_writer writer;
  rg_frame_begin(&writer, 7, payload, length);
  rg_frame_result result = rg_frame_write(&writer, 0);
  __CPROVER_assert(writer.sent == moved, "what counts as sent was taken");
  if (result != RG_FRAME_WHOLE) return;
  __CPROVER_assert(moved == RG_FRAME_HEADER + length, "all was taken, and no more");
  __CPROVER_assume(watched < moved);
  __CPROVER_assert(seen == (watched < RG_FRAME_HEADER ? ((uint8_t *)&writer.header)[watched]
                                                      : payload[watched - RG_FRAME_HEADER]),
                   "each byte in its place");
}
