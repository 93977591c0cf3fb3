/* C = A * B for row-major m x k and k x n matrices: the textbook kernel, one thread per element
 * of C, without shared memory. Launch it with blocks of 32 x 8. Compiled without a CUDA SDK:
 *
 *   clang-14 -S -O3 -x cuda --cuda-device-only -nocudainc -nocudalib \
 *     --cuda-gpu-arch=sm_80 sgemm.cu -o sgemm.ptx
 */
#include "cuda_builtins.h"

extern "C" __global__ void sgemm(const float *a, const float *b, float *c, int m, int n, int k) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; i++) sum = __builtin_fmaf(a[row * k + i], b[i * n + column], sum);
  c[row * n + column] = sum;
}
