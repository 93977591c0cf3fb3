/* base^exponent mod modulus of each element, by squaring; modulus below 2^32. */
#include <stdint.h>

void modpow(const uint32_t *restrict base, uint32_t *restrict out, uint32_t exponent,
            uint32_t modulus, int n) {
#pragma omp parallel for
  for (int i = 0; i < n; i++) {
    uint64_t power = base[i], result = 1;
    for (uint32_t e = exponent; e; e >>= 1) {
      if (e & 1) result = result * power % modulus;
      power = power * power % modulus;
    }
    out[i] = result;
  }
}
