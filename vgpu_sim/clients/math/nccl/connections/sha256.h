/* SHA-256 (FIPS 180-4) and HMAC (RFC 2104). */
#ifndef TSR_NCCL_SHA256_H
#define TSR_NCCL_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { TSR_SHA256_BYTES = 32, TSR_SHA256_BLOCK = 64 };

struct tsr_sha256 {
  uint32_t state[8];
  uint64_t bytes; /* added so far */
  uint8_t block[TSR_SHA256_BLOCK];
};

void tsr_sha256_begin(struct tsr_sha256 *hash);
void tsr_sha256_add(struct tsr_sha256 *hash, const void *bytes, size_t size);
/* Store the digest, and wipe the state. */
void tsr_sha256_end(struct tsr_sha256 *hash, uint8_t digest[TSR_SHA256_BYTES]);

struct tsr_hmac {
  struct tsr_sha256 inner, outer;
};

void tsr_hmac_begin(struct tsr_hmac *hmac, const void *key, size_t key_bytes);
void tsr_hmac_add(struct tsr_hmac *hmac, const void *bytes, size_t size);
/* Store the tag, and wipe the state. */
void tsr_hmac_end(struct tsr_hmac *hmac, uint8_t tag[TSR_SHA256_BYTES]);

#endif
