/* Iterations until |z| > 2, at most 256, one thread per pixel. Blocks of 32 x 8. */
#include "cuda.h"

extern "C" __global__ void mandelbrot(int *out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float cr = -2.0f + 3.0f * x / width, ci = -1.0f + 2.0f * y / height;
  float a = 0.0f, b = 0.0f;
  int i = 0;
  while (i < 256 && a * a + b * b <= 4.0f) {
    float next = a * a - b * b + cr;
    b = 2.0f * a * b + ci;
    a = next;
    i++;
  }
  out[y * width + x] = i;
}
