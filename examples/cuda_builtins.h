/* What a .cu file needs from CUDA's headers when clang compiles it without a CUDA SDK
 * (-nocudainc): the attributes, and clang's own threadIdx, blockIdx, blockDim, gridDim.
 * With nvcc, or clang beside an SDK, this file is empty. */
#if defined(__clang__) && !defined(__CUDACC__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#include <__clang_cuda_builtin_vars.h>
#endif
