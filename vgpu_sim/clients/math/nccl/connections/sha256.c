#include "connections/sha256.h"

#include <string.h>

#include "connections/secrets.h"

enum { LENGTH_BYTES = 8 };

static const uint32_t ROUND_CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t word, unsigned count) { return word >> count | word << (32 - count); }

static uint32_t load_big_endian(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store_big_endian(uint8_t *bytes, uint32_t word) {
  for (unsigned i = 0; i < 4; i++) bytes[i] = (uint8_t)(word >> (24 - 8 * i));
}

/* FIPS 180-4, 6.2.2 */
static void compress(uint32_t state[8], const uint8_t *block) {
  uint32_t schedule[64], work[8];
  for (unsigned i = 0; i < 16; i++) schedule[i] = load_big_endian(block + 4 * i);
  for (unsigned i = 16; i < 64; i++) {
    const uint32_t early = schedule[i - 15], late = schedule[i - 2];
    schedule[i] = schedule[i - 16] + (rotate(early, 7) ^ rotate(early, 18) ^ early >> 3) + schedule[i - 7] +
                  (rotate(late, 17) ^ rotate(late, 19) ^ late >> 10);
  }
  memcpy(work, state, sizeof work);
  for (unsigned i = 0; i < 64; i++) {
    const uint32_t a = work[0], e = work[4];
    const uint32_t choice = (e & work[5]) ^ (~e & work[6]);
    const uint32_t majority = (a & work[1]) ^ (a & work[2]) ^ (work[1] & work[2]);
    const uint32_t first =
        work[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + ROUND_CONSTANTS[i] + schedule[i];
    const uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
    memmove(work + 1, work, 7 * sizeof *work);
    work[4] += first;
    work[0] = first + second;
  }
  for (unsigned i = 0; i < 8; i++) state[i] += work[i];
  tsr_wipe(schedule, sizeof schedule);
  tsr_wipe(work, sizeof work);
}

void tsr_sha256_begin(struct tsr_sha256 *hash) {
  static const uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, START, sizeof START);
  hash->bytes = 0;
}

void tsr_sha256_add(struct tsr_sha256 *hash, const void *bytes, size_t size) {
  const uint8_t *at = bytes;
  while (size) {
    const size_t filled = hash->bytes % TSR_SHA256_BLOCK, space = TSR_SHA256_BLOCK - filled;
    const size_t count = size < space ? size : space;
    memcpy(hash->block + filled, at, count);
    hash->bytes += count;
    at += count;
    size -= count;
    if (count == space) compress(hash->state, hash->block);
  }
}

void tsr_sha256_end(struct tsr_sha256 *hash, uint8_t digest[TSR_SHA256_BYTES]) {
  const uint64_t bits = hash->bytes * 8;
  uint8_t length[LENGTH_BYTES];
  store_big_endian(length, (uint32_t)(bits >> 32));
  store_big_endian(length + 4, (uint32_t)bits);
  tsr_sha256_add(hash, "\x80", 1);
  while (hash->bytes % TSR_SHA256_BLOCK != TSR_SHA256_BLOCK - LENGTH_BYTES) tsr_sha256_add(hash, "", 1);
  tsr_sha256_add(hash, length, sizeof length);
  for (unsigned i = 0; i < 8; i++) store_big_endian(digest + 4 * i, hash->state[i]);
  tsr_wipe(hash, sizeof *hash);
}

static void begin_padded(struct tsr_sha256 *hash, const uint8_t *key, uint8_t pad) {
  uint8_t block[TSR_SHA256_BLOCK];
  for (unsigned i = 0; i < sizeof block; i++) block[i] = key[i] ^ pad;
  tsr_sha256_begin(hash);
  tsr_sha256_add(hash, block, sizeof block);
  tsr_wipe(block, sizeof block);
}

void tsr_hmac_begin(struct tsr_hmac *hmac, const void *key, size_t key_bytes) {
  uint8_t block[TSR_SHA256_BLOCK] = {0};
  if (key_bytes > sizeof block) {
    tsr_sha256_begin(&hmac->inner);
    tsr_sha256_add(&hmac->inner, key, key_bytes);
    tsr_sha256_end(&hmac->inner, block);
  } else {
    memcpy(block, key, key_bytes);
  }
  begin_padded(&hmac->inner, block, 0x36);
  begin_padded(&hmac->outer, block, 0x5c);
  tsr_wipe(block, sizeof block);
}

void tsr_hmac_add(struct tsr_hmac *hmac, const void *bytes, size_t size) {
  tsr_sha256_add(&hmac->inner, bytes, size);
}

void tsr_hmac_end(struct tsr_hmac *hmac, uint8_t tag[TSR_SHA256_BYTES]) {
  uint8_t digest[TSR_SHA256_BYTES];
  tsr_sha256_end(&hmac->inner, digest);
  tsr_sha256_add(&hmac->outer, digest, sizeof digest);
  tsr_sha256_end(&hmac->outer, tag);
  tsr_wipe(digest, sizeof digest);
}
