/* One sum per block of 512 elements, by a tree in shared memory. Blocks of 256; launched again on its
 * own results until one is left. */
#include "cuda.h"

extern "C" __global__ void reduction(const float *in, float *out, int n) {
  __shared__ float part[256];
  int t = threadIdx.x;
  int i = blockIdx.x * 512 + t;
  float sum = 0.0f;
  if (i < n) sum = in[i];
  if (i + 256 < n) sum += in[i + 256];
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}
