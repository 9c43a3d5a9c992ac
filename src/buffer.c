#include "buffer.h"

#include <stdlib.h>
#include <string.h>

int rg_buffer_reserve(rg_buffer *buffer, size_t more) {
  size_t wanted = buffer->size + more;
  if (wanted <= buffer->capacity) return 0;
  size_t capacity = buffer->capacity ? buffer->capacity : 4096;
  while (capacity < wanted) capacity *= 2;
  char *data = realloc(buffer->data, capacity);
  if (!data) return -1;
  buffer->data = data;
  buffer->capacity = capacity;
  return 0;
}

int rg_buffer_append(rg_buffer *buffer, const void *bytes, size_t size) {
  if (rg_buffer_reserve(buffer, size) < 0) return -1;
  if (size > 0) memcpy(buffer->data + buffer->size, bytes, size);
  buffer->size += size;
  return 0;
}

void rg_buffer_consume(rg_buffer *buffer, size_t size) {
  memmove(buffer->data, buffer->data + size, buffer->size - size);
  buffer->size -= size;
}

void rg_buffer_reset(rg_buffer *buffer, size_t most) {
  buffer->size = 0;
  if (buffer->capacity <= most) return;
  free(buffer->data);
  buffer->data = NULL;
  buffer->capacity = 0;
}
