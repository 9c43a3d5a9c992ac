#ifndef RG_BUFFER_H
#define RG_BUFFER_H

#include <stddef.h>

/* A growing array of bytes. */
typedef struct {
  char *data;
  size_t size, capacity;
} rg_buffer;

/* Both return 0, or -1 when there is no memory; the content is then as before. */
int rg_buffer_append(rg_buffer *buffer, const void *bytes, size_t size);
int rg_buffer_reserve(rg_buffer *buffer, size_t more);

/* Drops the first `size` bytes. */
void rg_buffer_consume(rg_buffer *buffer, size_t size);

/* Empties the buffer and, if it has grown beyond `most` bytes, frees its memory. */
void rg_buffer_reset(rg_buffer *buffer, size_t most);

#endif
