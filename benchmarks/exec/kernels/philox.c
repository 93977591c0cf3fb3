/* Philox 4x32-10: four random words each, from a counter and a key. */
#include <stdint.h>

typedef struct {
  uint32_t x, y, z, w;
} words_t;

void philox(words_t *restrict out, uint32_t seed_low, uint32_t seed_high, int n) {
#pragma omp parallel for
  for (uint32_t i = 0; i < (uint32_t)n; i++) {
    uint32_t x = i, y = 0, z = 0, w = 0, k = seed_low, l = seed_high;
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
      uint64_t product = (uint64_t)0xD2511F53u * x, product2 = (uint64_t)0xCD9E8D57u * z;
      x = (uint32_t)(product2 >> 32) ^ y ^ k;
      y = (uint32_t)product2;
      z = (uint32_t)(product >> 32) ^ w ^ l;
      w = (uint32_t)product;
      k += 0x9E3779B9u;
      l += 0xBB67AE85u;
    }
    out[i] = (words_t){x, y, z, w};
  }
}
