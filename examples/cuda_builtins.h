/* Replaces CUDA's headers when clang compiles a .cu file without a CUDA SDK (-nocudainc): defines
 * the attributes, and includes clang's threadIdx, blockIdx, blockDim and gridDim. __syncthreads is
 * a builtin of clang. Mathematical functions and atomics come from CUDA's headers, not from here.
 * With nvcc, or with clang and an SDK, this file is empty. */
#if defined(__clang__) && !defined(__CUDACC__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#include <__clang_cuda_builtin_vars.h>
#endif
