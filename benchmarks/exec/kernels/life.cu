/* A generation of Life on a torus of bytes, one cell per thread; blocks of 32 x 8. */
#include "device.h"

extern "C" __global__ void life(const unsigned char *now, unsigned char *next, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int left = x == 0 ? width - 1 : x - 1, right = x == width - 1 ? 0 : x + 1;
  const unsigned char *row = now + y * width;
  const unsigned char *above = now + (y == 0 ? height - 1 : y - 1) * width;
  const unsigned char *below = now + (y == height - 1 ? 0 : y + 1) * width;
  int around = above[left] + above[x] + above[right] + row[left] + row[right] + below[left] +
               below[x] + below[right];
  next[y * width + x] = around == 3 || (around == 2 && row[x]);
}
