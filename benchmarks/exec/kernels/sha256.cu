/* SHA-256 of messages of 32 bytes, one per thread: FIPS 180-4 for a single padded block. Words are
 * big-endian, as they are hashed. */
#include "device.h"
#include "sha256.h"

extern "C" __global__ void sha256(const unsigned *messages, unsigned *digests, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sha256_of_32_bytes(messages + 8l * i, digests + 8l * i);
}
