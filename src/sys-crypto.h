#ifndef RG_SYS_CRYPTO_H
#define RG_SYS_CRYPTO_H

#include <stddef.h>

/* Proofs of a secret, by libsodium. Without it all functions fail. */

enum { RG_CRYPTO_KEY = 32, RG_CRYPTO_MAC = 32 };

int rg_crypto_available(void);

/* 0; -1 without the library. */
int rg_crypto_random(void *bytes, size_t size);

/* HMAC-SHA256 (RFC 2104, FIPS 180-4) of `size` bytes under a key. */
int rg_crypto_mac(unsigned char mac[RG_CRYPTO_MAC], const void *bytes, size_t size,
                  const unsigned char key[RG_CRYPTO_KEY]);

/* 1 if the MAC is right; takes the same time wherever it is wrong. */
int rg_crypto_verify(const unsigned char mac[RG_CRYPTO_MAC], const void *bytes, size_t size,
                     const unsigned char key[RG_CRYPTO_KEY]);

/* Overwrites a secret; not left out by the compiler. */
void rg_crypto_forget(void *bytes, size_t size);

#endif
