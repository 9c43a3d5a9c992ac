#ifndef RG_CHECKSUM_H
#define RG_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Finds what was overwritten by mistake, and keeps out nobody who wants to deceive. Each step is one to
   one, so that a change of one word is lost in the last line at most; four lanes, since a
   multiplication waits for the one before. */
static inline uint32_t rg_checksum(const void *bytes, size_t size) {
  const uint64_t factor = 0x9e3779b97f4a7c15u;
  uint64_t lanes[4] = {1, 2, 3, 4}, words[4] = {0}, sum = size;
  const char *at = (const char *)bytes;
  for (; size >= sizeof words; size -= sizeof words, at += sizeof words) {
    memcpy(words, at, sizeof words);
    for (int i = 0; i < 4; i++) lanes[i] = (lanes[i] ^ words[i]) * factor;
  }
  if (size > 0) {
    memset(words, 0, sizeof words);
    memcpy(words, at, size);
    for (int i = 0; i < 4; i++) lanes[i] = (lanes[i] ^ words[i]) * factor;
  }
  for (int i = 0; i < 4; i++) {
    sum = (sum ^ lanes[i]) * factor;
    sum ^= sum >> 32;
  }
  return (uint32_t)sum;
}

#endif
