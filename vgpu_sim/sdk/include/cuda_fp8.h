/* Floats of 8 bits: e4m3 (4 bits of exponent, no infinity) and e5m2 (as a half's upper byte).
 * Conversions round once, to the nearest, ties to even, from whatever type they are given. */
#ifndef TESSERA_CUDA_FP8_H
#define TESSERA_CUDA_FP8_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "tessera/narrow/integers.h"

#define TESSERA_HD static __host__ __device__ __forceinline__

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

/* What does not fit becomes the largest number, or else the format's infinity (e4m3: not a number). */
TESSERA_HD __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                     __nv_fp8_interpretation_t kind) {
  const int mantissa = kind == __NV_E4M3 ? 3 : 2, least = kind == __NV_E4M3 ? -6 : -14;
  const unsigned int largest = kind == __NV_E4M3 ? 0x7e : 0x7b;
  const unsigned long long bits = __builtin_bit_cast(unsigned long long, x);
  const unsigned int sign = (unsigned int)(bits >> 63) << 7;
  const double size = __builtin_bit_cast(double, bits & ~0ull >> 1);
  if (x != x) return 0x7f;
  unsigned int code = 0x80;
  if (size < 1e6) {
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent < least) exponent = least;
    const double scale =
        __builtin_bit_cast(double, (unsigned long long)(1023 + mantissa - exponent) << 52);
    const double whole = size * scale + 0x1p52 - 0x1p52; /* an integer: scale is a power of two */
    code = ((unsigned int)(exponent - least) << mantissa) + (unsigned int)whole;
  }
  if (code > largest) code = saturate == __NV_SATFINITE ? largest : kind == __NV_E4M3 ? 0x7f : 0x7c;
  return (__nv_fp8_storage_t)(sign | code);
}
TESSERA_HD __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                    __nv_fp8_interpretation_t kind) {
  return __nv_cvt_double_to_fp8((double)x, saturate, kind);
}
TESSERA_HD __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate,
                                                      __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8((float)__half(x), saturate, kind);
}
TESSERA_HD __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x,
                                                          __nv_saturation_t saturate,
                                                          __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8((float)__nv_bfloat16(x), saturate, kind);
}
TESSERA_HD __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t saturate,
                                                          __nv_fp8_interpretation_t kind) {
  return (__nv_fp8x2_storage_t)(__nv_cvt_double_to_fp8(x.x, saturate, kind) |
                                __nv_cvt_double_to_fp8(x.y, saturate, kind) << 8);
}
TESSERA_HD __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturate,
                                                         __nv_fp8_interpretation_t kind) {
  return __nv_cvt_double2_to_fp8x2(make_double2(x.x, x.y), saturate, kind);
}

/* Each value of 8 bits is one of a half. */
TESSERA_HD __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
  if (kind == __NV_E5M2) return __half_raw{(unsigned short)(x << 8)};
  if ((x & 0x7f) == 0x7f) return __half_raw{0x7fff};
  const int exponent = x >> 3 & 15, mantissa = x & 7;
  const float scale =
      __builtin_bit_cast(float, (unsigned int)(127 - 10 + (exponent ? exponent : 1)) << 23);
  const float size = (float)(exponent ? mantissa + 8 : mantissa) * scale;
  return __half_raw(__half(x & 0x80 ? -size : size));
}

#define TESSERA_FROM(name, type) \
  explicit __host__ __device__ name(type v) : __x(__nv_cvt_double_to_fp8((double)v, __NV_SATFINITE, kind)) {}
#define TESSERA_TO(type) \
  explicit __host__ __device__ operator type() const { return (type)(float)*this; }
#define TESSERA_FP8(name, interpretation)                                                          \
  struct name {                                                                                    \
    static constexpr __nv_fp8_interpretation_t kind = interpretation;                              \
    __nv_fp8_storage_t __x;                                                                        \
    name() = default;                                                                              \
    explicit __host__ __device__ name(__half v) : name((float)v) {}                                \
    explicit __host__ __device__ name(__nv_bfloat16 v) : name((float)v) {}                         \
    TESSERA_FROM(name, float)                                                                      \
    TESSERA_FROM(name, double)                                                                     \
    TESSERA_FROM(name, short)                                                                      \
    TESSERA_FROM(name, unsigned short)                                                             \
    TESSERA_FROM(name, int)                                                                        \
    TESSERA_FROM(name, unsigned int)                                                               \
    TESSERA_FROM(name, long)                                                                       \
    TESSERA_FROM(name, unsigned long)                                                              \
    TESSERA_FROM(name, long long)                                                                  \
    TESSERA_FROM(name, unsigned long long)                                                         \
    explicit __host__ __device__ operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, kind); } \
    explicit __host__ __device__ operator float() const { return __half2float((__half)*this); }    \
    TESSERA_TO(double)                                                                             \
    TESSERA_TO(__nv_bfloat16)                                                                      \
    TESSERA_TO_INTEGERS(explicit)                                                                  \
    explicit __host__ __device__ operator bool() const { return (__x & 0x7f) != 0; }               \
  };                                                                                               \
  static_assert(sizeof(name) == 1, "one byte");
TESSERA_FP8(__nv_fp8_e4m3, __NV_E4M3)
TESSERA_FP8(__nv_fp8_e5m2, __NV_E5M2)
#undef TESSERA_FP8
#undef TESSERA_FROM
#undef TESSERA_TO

/* Two and four of them; the first one is in the lowest byte. */
#define TESSERA_FP8_PAIR(name, quad, one)                                                          \
  struct name {                                                                                    \
    __nv_fp8x2_storage_t __x;                                                                      \
    name() = default;                                                                              \
    explicit __host__ __device__ name(float2 v)                                                    \
        : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, one::kind)) {}                           \
    explicit __host__ __device__ name(double2 v)                                                   \
        : __x(__nv_cvt_double2_to_fp8x2(v, __NV_SATFINITE, one::kind)) {}                          \
    explicit __host__ __device__ name(__half2 v) : name(__half22float2(v)) {}                      \
    explicit __host__ __device__ name(__nv_bfloat162 v) : name(__bfloat1622float2(v)) {}           \
    explicit __host__ __device__ operator __half2() const {                                        \
      return __half2(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(__x & 255), one::kind),          \
                     __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(__x >> 8), one::kind));          \
    }                                                                                              \
    explicit __host__ __device__ operator float2() const { return __half22float2((__half2)*this); } \
  };                                                                                               \
  struct quad {                                                                                    \
    __nv_fp8x4_storage_t __x;                                                                      \
    quad() = default;                                                                              \
    explicit __host__ __device__ quad(float4 v)                                                    \
        : __x(name(make_float2(v.x, v.y)).__x | (unsigned int)name(make_float2(v.z, v.w)).__x << 16) {} \
    explicit __host__ __device__ operator float4() const {                                         \
      name low, high;                                                                              \
      low.__x = (__nv_fp8x2_storage_t)(__x & 0xffff);                                              \
      high.__x = (__nv_fp8x2_storage_t)(__x >> 16);                                                \
      const float2 a = (float2)low, b = (float2)high;                                              \
      return make_float4(a.x, a.y, b.x, b.y);                                                      \
    }                                                                                              \
  };
TESSERA_FP8_PAIR(__nv_fp8x2_e4m3, __nv_fp8x4_e4m3, __nv_fp8_e4m3)
TESSERA_FP8_PAIR(__nv_fp8x2_e5m2, __nv_fp8x4_e5m2, __nv_fp8_e5m2)
#undef TESSERA_FP8_PAIR

/* Powers of two from 2^-127 to 2^127, of absolute values; 0xff is not a number. A midpoint is rounded up. */
TESSERA_HD __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double x, __nv_saturation_t saturate,
                                                      enum cudaRoundMode rounding) {
  const unsigned long long size = __builtin_bit_cast(unsigned long long, x) & ~0ull >> 1;
  const unsigned long long rest = size & ((1ull << 52) - 1);
  if (x != x) return 0xff;
  if (rounding == cudaRoundZero && size >> 52 >= 1023 + 128 && size >> 52 < 2047) return 254;
  int code = (int)(size >> 52) - 1023 + 127;
  if (rounding == cudaRoundNearest)
    code += (int)(rest >> 51);
  else if (rounding != cudaRoundZero && rounding != cudaRoundMinInf)
    code += rest != 0;
  if (code > 254) return saturate == __NV_SATFINITE ? 254 : 255;
  return (__nv_fp8_storage_t)(code < 0 ? 0 : code);
}
TESSERA_HD __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t saturate,
                                                     enum cudaRoundMode rounding) {
  return __nv_cvt_double_to_e8m0((double)x, saturate, rounding);
}
TESSERA_HD __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16_raw x,
                                                           __nv_saturation_t saturate,
                                                           enum cudaRoundMode rounding) {
  return __nv_cvt_float_to_e8m0((float)__nv_bfloat16(x), saturate, rounding);
}
TESSERA_HD __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
  return __nv_bfloat16_raw{(unsigned short)(x == 0xff ? 0x7fff : x == 0 ? 0x40 : x << 7)};
}
struct __nv_fp8_e8m0 {
  __nv_fp8_storage_t __x;
  __nv_fp8_e8m0() = default;
  explicit __host__ __device__ __nv_fp8_e8m0(double v)
      : __x(__nv_cvt_double_to_e8m0(v, __NV_SATFINITE, cudaRoundPosInf)) {}
  explicit __host__ __device__ __nv_fp8_e8m0(float v) : __nv_fp8_e8m0((double)v) {}
  explicit __host__ __device__ __nv_fp8_e8m0(__half v) : __nv_fp8_e8m0((float)v) {}
  explicit __host__ __device__ __nv_fp8_e8m0(__nv_bfloat16 v) : __nv_fp8_e8m0((float)v) {}
#define TESSERA_FROM(type, exact) \
  explicit __host__ __device__ __nv_fp8_e8m0(type v) : __nv_fp8_e8m0((double)exact) {}
  TESSERA_FROM(short, v)
  TESSERA_FROM(unsigned short, v)
  TESSERA_FROM(int, v)
  TESSERA_FROM(unsigned int, v)
  TESSERA_FROM(long, tessera_sticky((long long)v))
  TESSERA_FROM(unsigned long, tessera_sticky((unsigned long long)v))
  TESSERA_FROM(long long, tessera_sticky(v))
  TESSERA_FROM(unsigned long long, tessera_sticky(v))
#undef TESSERA_FROM
  explicit __host__ __device__ operator __nv_bfloat16() const { return __nv_cvt_e8m0_to_bf16raw(__x); }
  explicit __host__ __device__ operator float() const { return (float)(__nv_bfloat16)*this; }
  explicit __host__ __device__ operator double() const { return (double)(float)*this; }
  explicit __host__ __device__ operator __half() const { return __half((float)*this); }
  TESSERA_TO_INTEGERS(explicit)
  explicit __host__ __device__ operator bool() const { return true; } /* no value is zero */
};
#undef TESSERA_HD
#undef TESSERA_TO_INTEGER
#undef TESSERA_TO_INTEGERS

#endif
