/* Philox 4x32-10: four random words per thread, from a counter and a key. Blocks of 256. */
#include "cuda.h"

extern "C" __global__ void philox(uint4 *out, unsigned seed_low, unsigned seed_high) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = i, y = 0, z = 0, w = 0, k = seed_low, l = seed_high;
#pragma unroll
  for (int round = 0; round < 10; round++) {
    unsigned high = __umulhi(0xD2511F53u, x), low = 0xD2511F53u * x;
    unsigned high2 = __umulhi(0xCD9E8D57u, z), low2 = 0xCD9E8D57u * z;
    x = high2 ^ y ^ k;
    y = low2;
    z = high ^ w ^ l;
    w = low;
    k += 0x9E3779B9u;
    l += 0xBB67AE85u;
  }
  out[i] = uint4{x, y, z, w};
}
