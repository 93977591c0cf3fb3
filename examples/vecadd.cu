/* c = a + b. Compiled without a CUDA SDK, with clang only:
 *
 *   clang-14 -S -O3 -x cuda --cuda-device-only -nocudainc -nocudalib \
 *     --cuda-gpu-arch=sm_80 vecadd.cu -o vecadd.ptx
 */
#include "cuda_builtins.h"

extern "C" __global__ void vecadd(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
