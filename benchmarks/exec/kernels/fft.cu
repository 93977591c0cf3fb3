/* Transforms of 1024 complex numbers each, forward: Stockham's algorithm by fours, a block of 256
 * threads for each. roots[i] is exp(-2 pi i / 1024). */
#include "device.h"

enum { POINTS = 1024 };

__device__ __forceinline__ float2 times(float2 a, float2 b) {
  return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}

extern "C" __global__ void fft(const float2 *in, float2 *out, const float2 *roots) {
  __shared__ float2 work[2][POINTS];
  int t = threadIdx.x;
  const float2 *from = in + (long)blockIdx.x * POINTS;
#pragma unroll
  for (int pass = 0; pass < 5; pass++) {
    int stride = 1 << 2 * pass, low = t & (stride - 1), high = t >> 2 * pass;
    float2 a = from[t], b = from[t + 256], c = from[t + 512], d = from[t + 768];
    float2 sum = {a.x + c.x, a.y + c.y}, apart = {a.x - c.x, a.y - c.y};
    float2 other = {b.x + d.x, b.y + d.y}, turned = {b.y - d.y, d.x - b.x};
    float2 *to = pass == 4 ? out + (long)blockIdx.x * POINTS : work[pass & 1];
    int place = low + 4 * stride * high, root = high * stride;
    to[place] = {sum.x + other.x, sum.y + other.y};
    to[place + stride] = times({apart.x + turned.x, apart.y + turned.y}, roots[root]);
    to[place + 2 * stride] = times({sum.x - other.x, sum.y - other.y}, roots[2 * root]);
    to[place + 3 * stride] = times({apart.x - turned.x, apart.y - turned.y}, roots[3 * root]);
    from = work[pass & 1];
    if (pass < 4) __syncthreads();
  }
}
