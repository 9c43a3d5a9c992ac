#include "sys-crypto.h"

#ifdef REGATTA_WITH_SODIUM

#include <sodium.h>

_Static_assert(RG_CRYPTO_KEY == crypto_auth_hmacsha256_KEYBYTES, "the key of HMAC-SHA256");
_Static_assert(RG_CRYPTO_MAC == crypto_auth_hmacsha256_BYTES, "the result of HMAC-SHA256");

int rg_crypto_available(void) { return sodium_init() >= 0; }

int rg_crypto_random(void *bytes, size_t size) {
  if (!rg_crypto_available()) return -1;
  randombytes_buf(bytes, size);
  return 0;
}

int rg_crypto_mac(unsigned char mac[RG_CRYPTO_MAC], const void *bytes, size_t size,
                  const unsigned char key[RG_CRYPTO_KEY]) {
  if (!rg_crypto_available()) return -1;
  return crypto_auth_hmacsha256(mac, bytes, size, key);
}

int rg_crypto_verify(const unsigned char mac[RG_CRYPTO_MAC], const void *bytes, size_t size,
                     const unsigned char key[RG_CRYPTO_KEY]) {
  if (!rg_crypto_available()) return 0;
  return crypto_auth_hmacsha256_verify(mac, bytes, size, key) == 0;
}

void rg_crypto_forget(void *bytes, size_t size) { sodium_memzero(bytes, size); }

#else

int rg_crypto_available(void) { return 0; }

int rg_crypto_random(void *bytes, size_t size) {
  (void)bytes, (void)size;
  return -1;
}

int rg_crypto_mac(unsigned char mac[RG_CRYPTO_MAC], const void *bytes, size_t size,
                  const unsigned char key[RG_CRYPTO_KEY]) {
  (void)mac, (void)bytes, (void)size, (void)key;
  return -1;
}

int rg_crypto_verify(const unsigned char mac[RG_CRYPTO_MAC], const void *bytes, size_t size,
                     const unsigned char key[RG_CRYPTO_KEY]) {
  (void)mac, (void)bytes, (void)size, (void)key;
  return 0;
}

void rg_crypto_forget(void *bytes, size_t size) {
  volatile unsigned char *at = bytes;
  while (size-- > 0) *at++ = 0;
}

#endif
