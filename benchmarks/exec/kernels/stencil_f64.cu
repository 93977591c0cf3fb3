/* Seven-point stencil in f64 on an n x n x n grid; faces are unchanged. Blocks of 32 x 8. */
#include "cuda.h"

extern "C" __global__ void stencil_f64(const double *in, double *out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z;
  if (x == 0 || y == 0 || z == 0 || x >= n - 1 || y >= n - 1 || z >= n - 1) return;
  int i = (z * n + y) * n + x, m = n * n;
  out[i] = 0.4 * in[i] + 0.1 * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - m] + in[i + m]);
}
