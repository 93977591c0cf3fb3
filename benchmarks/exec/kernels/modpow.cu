/* base^exponent mod modulus of each element, by squaring; modulus below 2^32. Blocks of 256. */
#include "cuda.h"

extern "C" __global__ void modpow(const unsigned *base, unsigned *out, unsigned exponent,
                                  unsigned modulus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long power = base[i], result = 1;
  for (unsigned e = exponent; e; e >>= 1) {
    if (e & 1) result = result * power % modulus;
    power = power * power % modulus;
  }
  out[i] = result;
}
