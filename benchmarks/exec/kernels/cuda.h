/* The parts of CUDA's headers that these kernels need when clang compiles them without a CUDA
 * SDK: the attributes, clang's own threadIdx and so on, and the device functions as builtins. */
#pragma once
#include "../../../examples/cuda_builtins.h"
#if defined(__clang__) && !defined(__CUDACC__)
#define __syncthreads() __nvvm_bar_sync(0)
#define atomicAdd(pointer, value) __nvvm_atom_add_gen_i(pointer, value)
#define __umulhi(a, b) __nvvm_mulhi_ui(a, b)
#define rsqrtf(x) __nvvm_rsqrt_approx_f(x)
#define __exp2f(x) __nvvm_ex2_approx_f(x)
#define fmaxf __builtin_fmaxf
#define fmaf __builtin_fmaf
struct __attribute__((aligned(16))) float4 {
  float x, y, z, w;
};
struct __attribute__((aligned(16))) uint4 {
  unsigned x, y, z, w;
};
#endif
