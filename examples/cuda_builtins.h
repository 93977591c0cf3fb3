/* Replaces CUDA's headers when clang compiles a .cu file without a CUDA SDK (-nocudainc): defines
 * the attributes, and includes clang's threadIdx, blockIdx, blockDim and gridDim.
 * With nvcc, or with clang and an SDK, this file is empty. */
#if defined(__clang__) && !defined(__CUDACC__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#include <__clang_cuda_builtin_vars.h>
#endif
