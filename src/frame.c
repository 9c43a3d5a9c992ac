#include "frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys-layout.h"
#include "sys-socket.h"

RG_LAYOUT_SIZE(rg_frame_header, 16);
RG_LAYOUT(rg_frame_header, magic, 0, 4);
RG_LAYOUT(rg_frame_header, type, 4, 1);
RG_LAYOUT(rg_frame_header, unused, 5, 3);
RG_LAYOUT(rg_frame_header, length, 8, 8);

static const uint8_t magic[4] = {'r', 'g', 'f', '1'};

/* The first piece of memory for a payload; later ones double. */
enum { FIRST_PIECE = 1 << 16 };

uint64_t rg_frame_number(const uint8_t bytes[8]) {
  uint64_t number = 0;
  for (int i = 7; i >= 0; i--) number = number << 8 | bytes[i];
  return number;
}

void rg_frame_put_number(uint8_t bytes[8], uint64_t number) {
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(number >> (8 * i));
}

/* 1 when `*got` has come to `size`. */
static rg_frame_result read_some(rg_frame_reader *reader, int fd, unsigned char *to, size_t size,
                                 size_t *got) {
  while (*got < size) {
    ssize_t n = rg_socket_recv(fd, to + *got, size - *got);
    if (n < 0) return errno == EAGAIN ? RG_FRAME_AGAIN : RG_FRAME_ERROR;
    if (n == 0) return rg_frame_is_begun(reader) ? RG_FRAME_TORN : RG_FRAME_END;
    *got += (size_t)n;
    reader->moved += (uint64_t)n;
  }
  return RG_FRAME_WHOLE;
}

/* The magic is looked at as soon as it is there: what speaks another protocol may never send as
   much as a header. */
static rg_frame_result read_header(rg_frame_reader *reader, int fd) {
  rg_frame_result result =
      read_some(reader, fd, (unsigned char *)&reader->header, RG_FRAME_HEADER, &reader->header_got);
  size_t known = reader->header_got < sizeof magic ? reader->header_got : sizeof magic;
  if (memcmp(reader->header.magic, magic, known) != 0) return RG_FRAME_BAD;
  if (result != RG_FRAME_WHOLE) return result;
  const uint8_t *unused = reader->header.unused;
  if (unused[0] || unused[1] || unused[2]) return RG_FRAME_BAD;
  reader->length = rg_frame_number(reader->header.length);
  return reader->length > reader->limit || reader->length > SIZE_MAX / 2 ? RG_FRAME_LONG
                                                                         : RG_FRAME_WHOLE;
}

static int grow(rg_frame_reader *reader) {
  size_t most = (size_t)reader->length;
  size_t wanted = reader->capacity == 0 ? FIRST_PIECE : 2 * reader->capacity;
  if (wanted > most) wanted = most;
  unsigned char *payload = realloc(reader->payload, wanted);
  if (!payload) return -1;
  reader->payload = payload;
  reader->capacity = wanted;
  return 0;
}

static rg_frame_result read_frame(rg_frame_reader *reader, int fd) {
  if (reader->header_got < RG_FRAME_HEADER) {
    rg_frame_result result = read_header(reader, fd);
    if (result != RG_FRAME_WHOLE) return result;
  }
  while (reader->got < reader->length) {
    if (reader->got == reader->capacity && grow(reader) < 0) return RG_FRAME_MEMORY;
    rg_frame_result result =
        read_some(reader, fd, reader->payload, reader->capacity, &reader->got);
    if (result != RG_FRAME_WHOLE) return result;
  }
  return RG_FRAME_WHOLE;
}

rg_frame_result rg_frame_read(rg_frame_reader *reader, int fd) {
  if (reader->spoiled != RG_FRAME_WHOLE) return reader->spoiled;
  rg_frame_result result = read_frame(reader, fd);
  if (result != RG_FRAME_WHOLE && result != RG_FRAME_AGAIN) reader->spoiled = result;
  return result;
}

void rg_frame_next(rg_frame_reader *reader) {
  free(reader->payload);
  reader->payload = NULL;
  reader->header_got = reader->capacity = reader->got = 0;
  reader->length = 0;
}

int rg_frame_is_begun(const rg_frame_reader *reader) { return reader->header_got > 0; }

void rg_frame_begin(rg_frame_writer *writer, uint8_t type, const void *payload, uint64_t length) {
  memset(writer, 0, sizeof *writer);
  memcpy(writer->header.magic, magic, sizeof magic);
  writer->header.type = type;
  rg_frame_put_number(writer->header.length, length);
  writer->payload = payload;
  writer->length = length;
}

rg_frame_result rg_frame_write(rg_frame_writer *writer, int fd) {
  while (writer->sent < RG_FRAME_HEADER + writer->length) {
    const unsigned char *from = (const unsigned char *)&writer->header + writer->sent;
    uint64_t left = RG_FRAME_HEADER - writer->sent;
    if (writer->sent >= RG_FRAME_HEADER) {
      uint64_t done = writer->sent - RG_FRAME_HEADER;
      from = writer->payload + done;
      left = writer->length - done;
    }
    unsigned char both[1024];
    if (writer->sent == 0 && writer->length > 0 && writer->length <= sizeof both - RG_FRAME_HEADER) {
      /* a small frame goes in one packet */
      memcpy(both, &writer->header, RG_FRAME_HEADER);
      memcpy(both + RG_FRAME_HEADER, writer->payload, (size_t)writer->length);
      from = both;
      left = RG_FRAME_HEADER + writer->length;
    }
    ssize_t n = rg_socket_send(fd, from, left > ((size_t)1 << 30) ? (size_t)1 << 30 : (size_t)left);
    if (n < 0) return errno == EAGAIN ? RG_FRAME_AGAIN : RG_FRAME_ERROR;
    writer->sent += (uint64_t)n;
  }
  return RG_FRAME_WHOLE;
}
