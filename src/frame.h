#ifndef RG_FRAME_H
#define RG_FRAME_H

#include <stddef.h>
#include <stdint.h>

/*
 * Frames: messages on a socket, each with its type and length before it. The two ends may be of
 * different machines, so that numbers are written byte by byte, the lowest first.
 *
 * A reader believes no length before it has compared it with its own limit, and takes memory only as
 * bytes arrive: who announces a gigabyte has to send it. What is not a header ends the connection, as
 * there is no telling where the next frame begins.
 */
typedef struct {
  uint8_t magic[4];
  uint8_t type;
  uint8_t unused[3];
  uint8_t length[8];
} rg_frame_header;

enum { RG_FRAME_HEADER = sizeof(rg_frame_header) };

typedef enum {
  RG_FRAME_WHOLE, /* a frame has been read, or written, to its end */
  RG_FRAME_AGAIN, /* the socket takes or gives no more now */
  RG_FRAME_END,   /* the peer has closed the connection between two frames */
  RG_FRAME_TORN,  /* it has closed it within one */
  RG_FRAME_BAD,   /* this is not the header of a frame */
  RG_FRAME_LONG,  /* the frame is longer than the limit; `length` says how long */
  RG_FRAME_MEMORY,
  RG_FRAME_ERROR /* of the system, in errno */
} rg_frame_result;

typedef struct {
  rg_frame_header header;
  size_t header_got;
  uint64_t limit; /* of the payload's length */
  uint64_t length;
  unsigned char *payload; /* malloc()ed; who takes it sets this to NULL */
  size_t capacity, got;
  uint64_t moved; /* bytes ever read */
  rg_frame_result spoiled; /* what has ended it: it reads nothing any more. RG_FRAME_WHOLE: nothing */
} rg_frame_reader;

/* Reads from the socket `fd`, which must not block, until a frame is whole or nothing more is there.
   Of the next frame nothing is read. */
rg_frame_result rg_frame_read(rg_frame_reader *reader, int fd);
/* Makes ready for the next frame; frees the payload unless it was taken. */
void rg_frame_next(rg_frame_reader *reader);
/* Whether part of a frame has been read. */
int rg_frame_is_begun(const rg_frame_reader *reader);

typedef struct {
  rg_frame_header header;
  const unsigned char *payload; /* the caller's */
  uint64_t length;
  uint64_t sent; /* of both */
} rg_frame_writer;

void rg_frame_begin(rg_frame_writer *writer, uint8_t type, const void *payload, uint64_t length);
rg_frame_result rg_frame_write(rg_frame_writer *writer, int fd);

/* The number of a little-endian field, and back. */
uint64_t rg_frame_number(const uint8_t bytes[8]);
void rg_frame_put_number(uint8_t bytes[8], uint64_t number);

#endif
