/* The same rounds, one message after another. */
#include "sha256.h"

void sha256(const unsigned *restrict messages, unsigned *restrict digests, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; i++) sha256_of_32_bytes(messages + 8l * i, digests + 8l * i);
}
