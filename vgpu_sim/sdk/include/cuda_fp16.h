/* IEEE half precision. Arithmetic is done in single precision and rounded
 * once, which gives the correctly rounded result for + - * / and the square root. */
#ifndef TESSERA_CUDA_FP16_H
#define TESSERA_CUDA_FP16_H

#include "cuda_runtime.h"

#include <math.h>

#define TESSERA_HD static __host__ __device__ __forceinline__

#include "tessera/narrow/integers.h"

struct __half_raw {
  unsigned short x;
};

TESSERA_HD unsigned short tessera_half_bits_of_double(double d) {
#ifdef __CUDA_ARCH__
  unsigned short r;
  __asm__("cvt.rn.f16.f64 %0, %1;" : "=h"(r) : "d"(d));
  return r;
#else
  return __builtin_bit_cast(unsigned short, (_Float16)d);
#endif
}
TESSERA_HD unsigned short tessera_half_bits(float f) {
#ifdef __CUDA_ARCH__
  unsigned short r;
  __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(f));
  return r;
#else
  return __builtin_bit_cast(unsigned short, (_Float16)f);
#endif
}
TESSERA_HD float tessera_half_value(unsigned short x) {
#ifdef __CUDA_ARCH__
  float r;
  __asm__("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
#else
  return (float)__builtin_bit_cast(_Float16, x);
#endif
}

struct __nv_bfloat16;
struct __half {
  unsigned short __x;
  __half() = default;
  __host__ __device__ __half(__half_raw r) : __x(r.x) {}
  __host__ __device__ __half(float f) : __x(tessera_half_bits(f)) {}
  __host__ __device__ __half(double d) : __x(tessera_half_bits_of_double(d)) {}
  __host__ __device__ __half(int i) : __x(tessera_half_bits_of_double((double)i)) {}
  __host__ __device__ __half(unsigned int i) : __x(tessera_half_bits_of_double((double)i)) {}
  __host__ __device__ __half(long long i) : __x(tessera_half_bits_of_double(tessera_sticky(i))) {}
  __host__ __device__ __half(long i) : __half((long long)i) {}
  __host__ __device__ __half(unsigned long long i) : __x(tessera_half_bits_of_double(tessera_sticky(i))) {}
  __host__ __device__ __half(unsigned long i) : __half((unsigned long long)i) {}
  __host__ __device__ __half(short i) : __x(tessera_half_bits((float)i)) {}
  __host__ __device__ __half(unsigned short i) : __x(tessera_half_bits((float)i)) {}
  explicit __host__ __device__ __half(__nv_bfloat16 v); /* of cuda_bf16.h */
  __host__ __device__ operator float() const { return tessera_half_value(__x); }
#ifndef __CUDA_NO_HALF_CONVERSIONS__
  TESSERA_TO_INTEGERS()
  __host__ __device__ operator bool() const { return (__x & 0x7fff) != 0; }
#endif
  __host__ __device__ operator __half_raw() const { return {__x}; }
  /* By it, volatile values become others, as in reductions of CCCL. */
  __host__ __device__ operator __half_raw() const volatile { return {__x}; }
};
static_assert(sizeof(__half) == 2, "two bytes");

struct __attribute__((aligned(4))) __half2 {
  __half x, y;
  __half2() = default;
  __host__ __device__ __half2(__half a, __half b) : x(a), y(b) {}
};

TESSERA_HD __half __float2half(float a) { return __half(a); }
TESSERA_HD __half __float2half_rn(float a) { return __half(a); }
TESSERA_HD __half __double2half(double a) { return __half(a); }
TESSERA_HD float __half2float(__half a) { return (float)a; }
TESSERA_HD __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
TESSERA_HD __half2 __half2half2(__half a) { return __half2(a, a); }
TESSERA_HD __half2 __float2half2_rn(float a) { return __half2(__half(a), __half(a)); }
TESSERA_HD __half2 __floats2half2_rn(float a, float b) { return __half2(__half(a), __half(b)); }
TESSERA_HD __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
TESSERA_HD float2 __half22float2(__half2 a) { return make_float2(a.x, a.y); }
TESSERA_HD __half __low2half(__half2 a) { return a.x; }
TESSERA_HD __half __high2half(__half2 a) { return a.y; }
TESSERA_HD float __low2float(__half2 a) { return a.x; }
TESSERA_HD float __high2float(__half2 a) { return a.y; }
TESSERA_HD __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
TESSERA_HD __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
TESSERA_HD __half2 make_half2(__half a, __half b) { return __half2(a, b); }
TESSERA_HD short __half_as_short(__half a) { return (short)a.__x; }
TESSERA_HD unsigned short __half_as_ushort(__half a) { return a.__x; }
TESSERA_HD __half __short_as_half(short a) { return __half_raw{(unsigned short)a}; }
TESSERA_HD __half __ushort_as_half(unsigned short a) { return __half_raw{a}; }

#define TESSERA_ONE __half
#define TESSERA_TWO __half2
#define TESSERA_RAW __half_raw
#define TESSERA_WORD half
#define TESSERA_WORDS half2
#include "tessera/narrow/arithmetic.h"

#if defined(__CUDA__)
static __device__ __forceinline__ __half atomicAdd(__half *p, __half v) {
#if __CUDA_ARCH__ >= 700
  unsigned short r;
  __asm__ __volatile__("atom.add.noftz.f16 %0, [%1], %2;"
                       : "=h"(r) : "l"(p), "h"(v.__x) : "memory");
  return __half_raw{r};
#else
  unsigned short old = *(volatile unsigned short *)p, seen;
  do {
    seen = old;
    old = atomicCAS((unsigned short *)p, seen, __hadd(__half(__half_raw{seen}), v).__x);
  } while (old != seen);
  return __half_raw{old};
#endif
}
static __device__ __forceinline__ __half2 atomicAdd(__half2 *p, __half2 v) {
#if __CUDA_ARCH__ >= 600
  unsigned int r;
  __asm__ __volatile__("atom.add.noftz.f16x2 %0, [%1], %2;"
                       : "=r"(r) : "l"(p), "r"(__builtin_bit_cast(unsigned int, v)) : "memory");
  return __builtin_bit_cast(__half2, r);
#else
  return __half2(atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y));
#endif
}
#endif

#include "tessera/narrow/floats.h"
#undef TESSERA_ONE
#undef TESSERA_TWO
#undef TESSERA_RAW
#undef TESSERA_WORD
#undef TESSERA_WORDS

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bff)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00)

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half nv_half;
typedef __half2 nv_half2;

#undef TESSERA_HD
#undef TESSERA_TO_INTEGER
#undef TESSERA_TO_INTEGERS

#endif
