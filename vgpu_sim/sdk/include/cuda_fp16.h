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
  __host__ __device__ operator float() const { return tessera_half_value(__x); }
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

#define TESSERA_BINARY(name, op)                                                            \
  TESSERA_HD __half name(__half a, __half b) { return __half((float)a op (float)b); }                 \
  TESSERA_HD __half2 name##2(__half2 a, __half2 b) { return __half2(name(a.x, b.x), name(a.y, b.y)); }
TESSERA_BINARY(__hadd, +)
TESSERA_BINARY(__hsub, -)
TESSERA_BINARY(__hmul, *)
#undef TESSERA_BINARY
TESSERA_HD __half __hdiv(__half a, __half b) { return __half((float)a / (float)b); }
TESSERA_HD __half2 __h2div(__half2 a, __half2 b) { return __half2(__hdiv(a.x, b.x), __hdiv(a.y, b.y)); }
TESSERA_HD __half __hneg(__half a) { return __half_raw{(unsigned short)(a.__x ^ 0x8000)}; }
TESSERA_HD __half2 __hneg2(__half2 a) { return __half2(__hneg(a.x), __hneg(a.y)); }
TESSERA_HD __half __habs(__half a) { return __half_raw{(unsigned short)(a.__x & 0x7fff)}; }
TESSERA_HD __half2 __habs2(__half2 a) { return __half2(__habs(a.x), __habs(a.y)); }
/* The product of two is exact in double precision; its sum with a third is rounded to odd, so that
 * the second rounding sees every bit (S. Boldo, G. Melquiond, Emulation of a FMA and correctly
 * rounded sums: proved algorithms using rounding to odd, IEEE Trans. Computers 57(4), 2008). */
TESSERA_HD __half __hfma(__half a, __half b, __half c) {
  const double p = (double)(float)a * (double)(float)b, q = (float)c, s = p + q, v = s - p;
  const double rest = (p - (s - v)) + (q - v);
  unsigned long long bits = __builtin_bit_cast(unsigned long long, s);
  if (rest != 0.0 && !(bits & 1)) bits += (rest > 0.0) == (s > 0.0) ? 1 : -1;
  return __half(__builtin_bit_cast(double, bits));
}
TESSERA_HD __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
TESSERA_HD __half __hfma_relu(__half a, __half b, __half c) {
  const __half r = __hfma(a, b, c);
  return (float)r < 0.0f ? __half(0.0f) : r;
}
/* Only the forms with u are true for a NaN. */
#define TESSERA_COMPARE(name, condition)                                                    \
  TESSERA_HD bool name(__half a, __half b) {                                                      \
    const float x = (float)a, y = (float)b;                                                 \
    return condition;                                                                       \
  }                                                                                         \
  TESSERA_HD __half2 name##2(__half2 a, __half2 b) {                                            \
    return __half2(__half(name(a.x, b.x) ? 1.0f : 0.0f), __half(name(a.y, b.y) ? 1.0f : 0.0f)); \
  }
TESSERA_COMPARE(__heq, x == y)
TESSERA_COMPARE(__hne, x < y || x > y)
TESSERA_COMPARE(__hneu, x != y)
TESSERA_COMPARE(__hlt, x < y)
TESSERA_COMPARE(__hle, x <= y)
TESSERA_COMPARE(__hgt, x > y)
TESSERA_COMPARE(__hge, x >= y)
#undef TESSERA_COMPARE
/* Whether both pairs of elements compare so. */
#define TESSERA_BOTH(name, one) \
  TESSERA_HD bool name(__half2 a, __half2 b) { return one(a.x, b.x) && one(a.y, b.y); }
TESSERA_BOTH(__hbeq2, __heq)
TESSERA_BOTH(__hbne2, __hne)
TESSERA_BOTH(__hbneu2, __hneu)
TESSERA_BOTH(__hblt2, __hlt)
TESSERA_BOTH(__hble2, __hle)
TESSERA_BOTH(__hbgt2, __hgt)
TESSERA_BOTH(__hbge2, __hge)
#undef TESSERA_BOTH
TESSERA_HD bool __hisnan(__half a) { return (float)a != (float)a; }
TESSERA_HD int __hisinf(__half a) { return (float)a == INFINITY ? 1 : (float)a == -INFINITY ? -1 : 0; }
TESSERA_HD __half __hmax(__half a, __half b) { return __half(fmaxf((float)a, (float)b)); }
TESSERA_HD __half __hmin(__half a, __half b) { return __half(fminf((float)a, (float)b)); }
TESSERA_HD __half2 __hmax2(__half2 a, __half2 b) { return __half2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
TESSERA_HD __half2 __hmin2(__half2 a, __half2 b) { return __half2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }

#define TESSERA_OPERATOR(op, function)                                                      \
  TESSERA_HD __half operator op(__half a, __half b) { return function(a, b); }                     \
  TESSERA_HD __half &operator op##=(__half &a, __half b) { return a = function(a, b); }
TESSERA_OPERATOR(+, __hadd)
TESSERA_OPERATOR(-, __hsub)
TESSERA_OPERATOR(*, __hmul)
TESSERA_OPERATOR(/, __hdiv)
#undef TESSERA_OPERATOR
TESSERA_HD __half operator-(__half a) { return __hneg(a); }
TESSERA_HD bool operator==(__half a, __half b) { return __heq(a, b); }
TESSERA_HD bool operator!=(__half a, __half b) { return __hneu(a, b); }
TESSERA_HD bool operator<(__half a, __half b) { return __hlt(a, b); }
TESSERA_HD bool operator<=(__half a, __half b) { return __hle(a, b); }
TESSERA_HD bool operator>(__half a, __half b) { return __hgt(a, b); }
TESSERA_HD bool operator>=(__half a, __half b) { return __hge(a, b); }
TESSERA_HD __half2 operator+(__half2 a, __half2 b) { return __hadd2(a, b); }
TESSERA_HD __half2 operator-(__half2 a, __half2 b) { return __hsub2(a, b); }
TESSERA_HD __half2 operator*(__half2 a, __half2 b) { return __hmul2(a, b); }
TESSERA_HD __half2 operator/(__half2 a, __half2 b) { return __h2div(a, b); }

#if defined(__CUDA__)
#define TESSERA_FUNCTION(name, expression)                                                  \
  static __device__ __forceinline__ __half h##name(__half a) {                                   \
    const float v = a;                                                                      \
    return __half(expression);                                                                 \
  }                                                                                        \
  static __device__ __forceinline__ __half2 h2##name(__half2 a) {                                \
    return __half2(h##name(a.x), h##name(a.y));                                                \
  }
TESSERA_FUNCTION(sqrt, sqrtf(v))
TESSERA_FUNCTION(rsqrt, (float)(1.0 / sqrt((double)v)))
TESSERA_FUNCTION(rcp, 1.0f / v)
TESSERA_FUNCTION(exp, expf(v))
TESSERA_FUNCTION(exp2, exp2f(v))
TESSERA_FUNCTION(exp10, exp10f(v))
TESSERA_FUNCTION(log, logf(v))
TESSERA_FUNCTION(log2, log2f(v))
TESSERA_FUNCTION(log10, log10f(v))
TESSERA_FUNCTION(sin, sinf(v))
TESSERA_FUNCTION(cos, cosf(v))
TESSERA_FUNCTION(tanh, tanhf(v))
TESSERA_FUNCTION(floor, floorf(v))
TESSERA_FUNCTION(ceil, ceilf(v))
TESSERA_FUNCTION(trunc, truncf(v))
TESSERA_FUNCTION(rint, rintf(v))
#undef TESSERA_FUNCTION

#define TESSERA_SHUFFLE(name, type)                                                         \
  static __device__ __forceinline__ __half name(unsigned int mask, __half v, type lane,           \
                                             int width = 32) {                             \
    return __half_raw{(unsigned short)name(mask, (unsigned int)v.__x, lane, width)};           \
  }                                                                                        \
  static __device__ __forceinline__ __half2 name(unsigned int mask, __half2 v, type lane,         \
                                              int width = 32) {                            \
    return __builtin_bit_cast(__half2, name(mask, __builtin_bit_cast(unsigned int, v), lane, width)); \
  }
TESSERA_SHUFFLE(__shfl_sync, int)
TESSERA_SHUFFLE(__shfl_up_sync, unsigned int)
TESSERA_SHUFFLE(__shfl_down_sync, unsigned int)
TESSERA_SHUFFLE(__shfl_xor_sync, int)
#undef TESSERA_SHUFFLE

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

#define TESSERA_ONE __half
#define TESSERA_TWO __half2
#define TESSERA_WORD half
#define TESSERA_WORDS half2
#include "tessera/narrow/floats.h"
#undef TESSERA_ONE
#undef TESSERA_TWO
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

#endif
