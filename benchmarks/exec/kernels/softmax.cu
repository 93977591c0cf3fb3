/* Softmax of each row of 1024 columns, a block of 256 per row: maximum and sum by trees in shared
 * memory, and 2^x for e^x. */
#include "cuda.h"

extern "C" __global__ void softmax(const float *in, float *out) {
  __shared__ float part[256];
  int t = threadIdx.x, first = blockIdx.x * 1024 + t;
  float x[4], most = -3.4e38f, sum = 0.0f;
  for (int j = 0; j < 4; j++) {
    x[j] = in[first + 256 * j] * 1.44269504f;
    most = fmaxf(most, x[j]);
  }
  part[t] = most;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  most = part[0];
  __syncthreads();
  for (int j = 0; j < 4; j++) {
    x[j] = __exp2f(x[j] - most);
    sum += x[j];
  }
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  float scale = 1.0f / part[0];
  for (int j = 0; j < 4; j++) out[first + 256 * j] = x[j] * scale;
}
