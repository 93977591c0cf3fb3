/* The bfloat16 format. Arithmetic is done in single precision and rounded
 * once, which gives the correctly rounded result for + - * / and the square root. */
#ifndef TESSERA_CUDA_BF16_H
#define TESSERA_CUDA_BF16_H

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
    const bool above = (double)f < d;
    f = __builtin_bit_cast(float, (f > 0.0f) == above ? b + 1 : b - 1);
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
  __host__ __device__ operator float() const { return tessera_bfloat16_value(__x); }
  __host__ __device__ operator __nv_bfloat16_raw() const { return {__x}; }
  /* By it, volatile values become others, as in reductions of CCCL. */
  __host__ __device__ operator __nv_bfloat16_raw() const volatile { return {__x}; }
};
static_assert(sizeof(__nv_bfloat16) == 2, "two bytes");

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

#define TESSERA_BINARY(name, op)                                                            \
  TESSERA_HD __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16((float)a op (float)b); }                 \
  TESSERA_HD __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(name(a.x, b.x), name(a.y, b.y)); }
TESSERA_BINARY(__hadd, +)
TESSERA_BINARY(__hsub, -)
TESSERA_BINARY(__hmul, *)
#undef TESSERA_BINARY
TESSERA_HD __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16((float)a / (float)b); }
TESSERA_HD __nv_bfloat162 __h2div(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(__hdiv(a.x, b.x), __hdiv(a.y, b.y)); }
TESSERA_HD __nv_bfloat16 __hneg(__nv_bfloat16 a) { return __nv_bfloat16_raw{(unsigned short)(a.__x ^ 0x8000)}; }
TESSERA_HD __nv_bfloat162 __hneg2(__nv_bfloat162 a) { return __nv_bfloat162(__hneg(a.x), __hneg(a.y)); }
TESSERA_HD __nv_bfloat16 __habs(__nv_bfloat16 a) { return __nv_bfloat16_raw{(unsigned short)(a.__x & 0x7fff)}; }
TESSERA_HD __nv_bfloat162 __habs2(__nv_bfloat162 a) { return __nv_bfloat162(__habs(a.x), __habs(a.y)); }
/* The product of two is exact in double precision; its sum with a third is rounded to odd, so that
 * the second rounding sees every bit (S. Boldo, G. Melquiond, Emulation of a FMA and correctly
 * rounded sums: proved algorithms using rounding to odd, IEEE Trans. Computers 57(4), 2008). */
TESSERA_HD __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  const double p = (double)(float)a * (double)(float)b, q = (float)c, s = p + q, v = s - p;
  const double rest = (p - (s - v)) + (q - v);
  unsigned long long bits = __builtin_bit_cast(unsigned long long, s);
  if (rest != 0.0 && !(bits & 1)) bits += (rest > 0.0) == (s > 0.0) ? 1 : -1;
  return __nv_bfloat16(__builtin_bit_cast(double, bits));
}
TESSERA_HD __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
TESSERA_HD __nv_bfloat16 __hfma_relu(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  const __nv_bfloat16 r = __hfma(a, b, c);
  return (float)r < 0.0f ? __nv_bfloat16(0.0f) : r;
}
/* Only the forms with u are true for a NaN. */
#define TESSERA_COMPARE(name, condition)                                                    \
  TESSERA_HD bool name(__nv_bfloat16 a, __nv_bfloat16 b) {                                                      \
    const float x = (float)a, y = (float)b;                                                 \
    return condition;                                                                       \
  }                                                                                         \
  TESSERA_HD __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b) {                                            \
    return __nv_bfloat162(__nv_bfloat16(name(a.x, b.x) ? 1.0f : 0.0f), __nv_bfloat16(name(a.y, b.y) ? 1.0f : 0.0f)); \
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
  TESSERA_HD bool name(__nv_bfloat162 a, __nv_bfloat162 b) { return one(a.x, b.x) && one(a.y, b.y); }
TESSERA_BOTH(__hbeq2, __heq)
TESSERA_BOTH(__hbne2, __hne)
TESSERA_BOTH(__hbneu2, __hneu)
TESSERA_BOTH(__hblt2, __hlt)
TESSERA_BOTH(__hble2, __hle)
TESSERA_BOTH(__hbgt2, __hgt)
TESSERA_BOTH(__hbge2, __hge)
#undef TESSERA_BOTH
TESSERA_HD bool __hisnan(__nv_bfloat16 a) { return (float)a != (float)a; }
TESSERA_HD int __hisinf(__nv_bfloat16 a) { return (float)a == INFINITY ? 1 : (float)a == -INFINITY ? -1 : 0; }
TESSERA_HD __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fmaxf((float)a, (float)b)); }
TESSERA_HD __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fminf((float)a, (float)b)); }
TESSERA_HD __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
TESSERA_HD __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(__hmin(a.x, b.x), __hmin(a.y, b.y)); }

#define TESSERA_OPERATOR(op, function)                                                      \
  TESSERA_HD __nv_bfloat16 operator op(__nv_bfloat16 a, __nv_bfloat16 b) { return function(a, b); }                     \
  TESSERA_HD __nv_bfloat16 &operator op##=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = function(a, b); }
TESSERA_OPERATOR(+, __hadd)
TESSERA_OPERATOR(-, __hsub)
TESSERA_OPERATOR(*, __hmul)
TESSERA_OPERATOR(/, __hdiv)
#undef TESSERA_OPERATOR
TESSERA_HD __nv_bfloat16 operator-(__nv_bfloat16 a) { return __hneg(a); }
TESSERA_HD bool operator==(__nv_bfloat16 a, __nv_bfloat16 b) { return __heq(a, b); }
TESSERA_HD bool operator!=(__nv_bfloat16 a, __nv_bfloat16 b) { return __hneu(a, b); }
TESSERA_HD bool operator<(__nv_bfloat16 a, __nv_bfloat16 b) { return __hlt(a, b); }
TESSERA_HD bool operator<=(__nv_bfloat16 a, __nv_bfloat16 b) { return __hle(a, b); }
TESSERA_HD bool operator>(__nv_bfloat16 a, __nv_bfloat16 b) { return __hgt(a, b); }
TESSERA_HD bool operator>=(__nv_bfloat16 a, __nv_bfloat16 b) { return __hge(a, b); }
TESSERA_HD __nv_bfloat162 operator+(__nv_bfloat162 a, __nv_bfloat162 b) { return __hadd2(a, b); }
TESSERA_HD __nv_bfloat162 operator-(__nv_bfloat162 a, __nv_bfloat162 b) { return __hsub2(a, b); }
TESSERA_HD __nv_bfloat162 operator*(__nv_bfloat162 a, __nv_bfloat162 b) { return __hmul2(a, b); }
TESSERA_HD __nv_bfloat162 operator/(__nv_bfloat162 a, __nv_bfloat162 b) { return __h2div(a, b); }

#if defined(__CUDA__)
#define TESSERA_FUNCTION(name, expression)                                                  \
  static __device__ __forceinline__ __nv_bfloat16 h##name(__nv_bfloat16 a) {                                   \
    const float v = a;                                                                      \
    return __nv_bfloat16(expression);                                                                 \
  }                                                                                        \
  static __device__ __forceinline__ __nv_bfloat162 h2##name(__nv_bfloat162 a) {                                \
    return __nv_bfloat162(h##name(a.x), h##name(a.y));                                                \
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
  static __device__ __forceinline__ __nv_bfloat16 name(unsigned int mask, __nv_bfloat16 v, type lane,           \
                                             int width = 32) {                             \
    return __nv_bfloat16_raw{(unsigned short)name(mask, (unsigned int)v.__x, lane, width)};           \
  }                                                                                        \
  static __device__ __forceinline__ __nv_bfloat162 name(unsigned int mask, __nv_bfloat162 v, type lane,         \
                                              int width = 32) {                            \
    return __builtin_bit_cast(__nv_bfloat162, name(mask, __builtin_bit_cast(unsigned int, v), lane, width)); \
  }
TESSERA_SHUFFLE(__shfl_sync, int)
TESSERA_SHUFFLE(__shfl_up_sync, unsigned int)
TESSERA_SHUFFLE(__shfl_down_sync, unsigned int)
TESSERA_SHUFFLE(__shfl_xor_sync, int)
#undef TESSERA_SHUFFLE

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

#define TESSERA_ONE __nv_bfloat16
#define TESSERA_TWO __nv_bfloat162
#define TESSERA_WORD bfloat16
#define TESSERA_WORDS bfloat162
#include "tessera/narrow/floats.h"
#undef TESSERA_ONE
#undef TESSERA_TWO
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

#endif
