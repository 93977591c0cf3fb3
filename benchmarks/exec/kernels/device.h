/* Shuffles and fast functions, beyond what cuda.h has. */
#pragma once
#include "cuda.h"
#if defined(__clang__) && !defined(__CUDACC__)
#define __forceinline__ inline __attribute__((always_inline))
#define __shfl_xor_sync(mask, value, lanes) __nvvm_shfl_sync_bfly_f32(mask, value, lanes, 31)
#define __shfl_up_sync(mask, value, lanes) __nvvm_shfl_sync_up_i32(mask, value, lanes, 0)
#define __shfl_down_sync(mask, value, lanes) __nvvm_shfl_sync_down_f32(mask, value, lanes, 31)
#define __match_any_sync(mask, value) __nvvm_match_any_sync_i32(mask, value)
#define __syncwarp() __nvvm_bar_warp_sync(0xffffffffu)
#define __popc __builtin_popcount
#define __fdividef(a, b) __nvvm_div_approx_f(a, b)
#define __fsqrt_rn(x) __nvvm_sqrt_rn_f(x)
#define __expf(x) __nvvm_ex2_approx_f((x) * 1.4426950408889634f)
#define __logf(x) (__nvvm_lg2_approx_f(x) * 0.6931471805599453f)
struct __attribute__((aligned(8))) float2 {
  float x, y;
};
#endif
