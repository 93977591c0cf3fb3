/* The bfloat16 format. Arithmetic is done in single precision and rounded
 * once, which gives the correctly rounded result for + - * / and the square root. */
#ifndef TESSERA_CUDA_BF16_H
#define TESSERA_CUDA_BF16_H

#include "cuda_fp16.h"
#include "cuda_runtime.h"

#include <math.h>

#define TESSERA_HD static __host__ __device__ __forceinline__

#include "tessera/narrow/integers.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};

TESSERA_HD unsigned short tessera_bfloat16_bits(float f) {
  const unsigned int b = __builtin_bit_cast(unsigned int, f);
  if (f != f) return 0x7fff;
  return (unsigned short)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
TESSERA_HD unsigned short tessera_bfloat16_bits_of_double(double d) {
  /* to odd in single precision first, so that the second rounding sees every bit */
  float f = (float)d;
  if ((double)f != d && d == d && (__builtin_bit_cast(unsigned int, f) & 1) == 0) {
    const unsigned int b = __builtin_bit_cast(unsigned int, f);
    /* Of magnitudes, as a zero has no sign that a comparison sees. */
    const bool is_less = __builtin_fabs((double)f) < __builtin_fabs(d);
    f = __builtin_bit_cast(float, is_less ? b + 1 : b - 1);
  }
  return tessera_bfloat16_bits(f);
}
TESSERA_HD float tessera_bfloat16_value(unsigned short x) {
  return __builtin_bit_cast(float, (unsigned int)x << 16);
}

struct __nv_bfloat16 {
  unsigned short __x;
  __nv_bfloat16() = default;
  __host__ __device__ __nv_bfloat16(__nv_bfloat16_raw r) : __x(r.x) {}
  __host__ __device__ __nv_bfloat16(float f) : __x(tessera_bfloat16_bits(f)) {}
  __host__ __device__ __nv_bfloat16(double d) : __x(tessera_bfloat16_bits_of_double(d)) {}
  __host__ __device__ __nv_bfloat16(int i) : __x(tessera_bfloat16_bits_of_double((double)i)) {}
  __host__ __device__ __nv_bfloat16(unsigned int i) : __x(tessera_bfloat16_bits_of_double((double)i)) {}
  __host__ __device__ __nv_bfloat16(long long i) : __x(tessera_bfloat16_bits_of_double(tessera_sticky(i))) {}
  __host__ __device__ __nv_bfloat16(long i) : __nv_bfloat16((long long)i) {}
  __host__ __device__ __nv_bfloat16(unsigned long long i) : __x(tessera_bfloat16_bits_of_double(tessera_sticky(i))) {}
  __host__ __device__ __nv_bfloat16(unsigned long i) : __nv_bfloat16((unsigned long long)i) {}
  __host__ __device__ __nv_bfloat16(short i) : __x(tessera_bfloat16_bits((float)i)) {}
  __host__ __device__ __nv_bfloat16(unsigned short i) : __x(tessera_bfloat16_bits((float)i)) {}
  explicit __host__ __device__ __nv_bfloat16(__half v) : __nv_bfloat16((float)v) {}
  __host__ __device__ operator float() const { return tessera_bfloat16_value(__x); }
#ifndef __CUDA_NO_BFLOAT16_CONVERSIONS__
  TESSERA_TO_INTEGERS()
  __host__ __device__ operator bool() const { return (__x & 0x7fff) != 0; }
#endif
  __host__ __device__ operator __nv_bfloat16_raw() const { return {__x}; }
  /* By it, volatile values become others, as in reductions of CCCL. */
  __host__ __device__ operator __nv_bfloat16_raw() const volatile { return {__x}; }
};
static_assert(sizeof(__nv_bfloat16) == 2, "two bytes");
inline __host__ __device__ __half::__half(__nv_bfloat16 v) : __half((float)v) {}

struct __attribute__((aligned(4))) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  __host__ __device__ __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
};

TESSERA_HD __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16(a); }
TESSERA_HD __nv_bfloat16 __float2bfloat16_rn(float a) { return __nv_bfloat16(a); }
TESSERA_HD __nv_bfloat16 __double2bfloat16(double a) { return __nv_bfloat16(a); }
TESSERA_HD float __bfloat162float(__nv_bfloat16 a) { return (float)a; }
TESSERA_HD __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
TESSERA_HD __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
TESSERA_HD __nv_bfloat162 __float2bfloat162_rn(float a) { return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(a)); }
TESSERA_HD __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(b)); }
TESSERA_HD __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __nv_bfloat162(__nv_bfloat16(a.x), __nv_bfloat16(a.y)); }
TESSERA_HD float2 __bfloat1622float2(__nv_bfloat162 a) { return make_float2(a.x, a.y); }
TESSERA_HD __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
TESSERA_HD __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
TESSERA_HD float __low2float(__nv_bfloat162 a) { return a.x; }
TESSERA_HD float __high2float(__nv_bfloat162 a) { return a.y; }
TESSERA_HD __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.x, a.x); }
TESSERA_HD __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.y); }
TESSERA_HD __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
TESSERA_HD short __bfloat16_as_short(__nv_bfloat16 a) { return (short)a.__x; }
TESSERA_HD unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.__x; }
TESSERA_HD __nv_bfloat16 __short_as_bfloat16(short a) { return __nv_bfloat16_raw{(unsigned short)a}; }
TESSERA_HD __nv_bfloat16 __ushort_as_bfloat16(unsigned short a) { return __nv_bfloat16_raw{a}; }

#define TESSERA_ONE __nv_bfloat16
#define TESSERA_TWO __nv_bfloat162
#define TESSERA_RAW __nv_bfloat16_raw
#define TESSERA_WORD bfloat16
#define TESSERA_WORDS bfloat162
#include "tessera/narrow/arithmetic.h"

#if defined(__CUDA__)
static __device__ __forceinline__ __nv_bfloat16 atomicAdd(__nv_bfloat16 *p, __nv_bfloat16 v) {
#if __CUDA_ARCH__ >= 900
  unsigned short r;
  __asm__ __volatile__("atom.add.noftz.bf16 %0, [%1], %2;"
                       : "=h"(r) : "l"(p), "h"(v.__x) : "memory");
  return __nv_bfloat16_raw{r};
#else
  unsigned short old = *(volatile unsigned short *)p, seen;
  do {
    seen = old;
    old = atomicCAS((unsigned short *)p, seen, __hadd(__nv_bfloat16(__nv_bfloat16_raw{seen}), v).__x);
  } while (old != seen);
  return __nv_bfloat16_raw{old};
#endif
}
static __device__ __forceinline__ __nv_bfloat162 atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 v) {
#if __CUDA_ARCH__ >= 900
  unsigned int r;
  __asm__ __volatile__("atom.add.noftz.bf16x2 %0, [%1], %2;"
                       : "=r"(r) : "l"(p), "r"(__builtin_bit_cast(unsigned int, v)) : "memory");
  return __builtin_bit_cast(__nv_bfloat162, r);
#else
  return __nv_bfloat162(atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y));
#endif
}
#endif

#include "tessera/narrow/floats.h"
#undef TESSERA_ONE
#undef TESSERA_TWO
#undef TESSERA_RAW
#undef TESSERA_WORD
#undef TESSERA_WORDS

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7f)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#undef TESSERA_HD
#undef TESSERA_TO_INTEGER
#undef TESSERA_TO_INTEGERS

#endif
