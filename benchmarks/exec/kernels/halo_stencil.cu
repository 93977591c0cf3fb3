/* 3 x 3 convolution of an image with its edge repeated outwards; a block of 32 x 8 threads shares its tile
 * and the pixels around it. */
#include "device.h"

enum { WIDE = 32, HIGH = 8 };

__constant__ float factors[9] = {.0625f, .125f, .0625f, .125f, .25f, .125f, .0625f, .125f, .0625f};

extern "C" __global__ void halo_stencil(const float *in, float *out, int width, int height) {
  __shared__ float tile[HIGH + 2][WIDE + 2];
  int left = blockIdx.x * WIDE - 1, top = blockIdx.y * HIGH - 1;
  for (int i = threadIdx.y * WIDE + threadIdx.x; i < (HIGH + 2) * (WIDE + 2); i += WIDE * HIGH) {
    int x = left + i % (WIDE + 2), y = top + i / (WIDE + 2);
    x = x < 0 ? 0 : x >= width ? width - 1 : x;
    y = y < 0 ? 0 : y >= height ? height - 1 : y;
    tile[i / (WIDE + 2)][i % (WIDE + 2)] = in[y * width + x];
  }
  __syncthreads();
  int x = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * HIGH + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 3; j++)
#pragma unroll
    for (int i = 0; i < 3; i++)
      sum = fmaf(factors[3 * j + i], tile[threadIdx.y + j][threadIdx.x + i], sum);
  out[y * width + x] = sum;
}
