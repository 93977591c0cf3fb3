/* y = s * x + y, one fused multiply-add per element. Compiled without a CUDA SDK:
 *
 *   clang-14 -S -O3 -x cuda --cuda-device-only -nocudainc -nocudalib \
 *     --cuda-gpu-arch=sm_80 saxpy.cu -o saxpy.ptx
 */
#include "cuda_builtins.h"

extern "C" __global__ void saxpy(float s, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __builtin_fmaf(s, x[i], y[i]);
}
