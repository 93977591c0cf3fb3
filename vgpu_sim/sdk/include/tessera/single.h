/* Functions in single precision. Each is computed in double precision, which is as fast here, and
 * rounded once. */
#ifndef TESSERA_SINGLE_H
#define TESSERA_SINGLE_H

#include "exponential.h"
#include "special.h"
#include "trigonometric.h"

/* Reduces x to [-pi/4, pi/4]; returns the angle. */
TESSERA_F double tessera_reduce_single(float x, int *quadrant) {
  if (tessera_abs(x) > 0x1p30) {
    const tessera_dd r = tessera_reduce_large(x, quadrant);
    return r.hi;
  }
  const double n = tessera_rint(x * 0x1.45f306dc9c883p-1);
  *quadrant = (int)((long long)n & 3);
  return tessera_fma(-n, 0x1.1a62633145c07p-54, tessera_fma(-n, 0x1.921fb54442d18p+0, x));
}
TESSERA_F double tessera_sin_quick(double r) {
  const double z = r * r;
  double p = -0x1.ae7f3e733b81fp-41;
  p = tessera_fma(p, z, 0x1.6124613a86d09p-33);
  p = tessera_fma(p, z, -0x1.ae64567f544e4p-26);
  p = tessera_fma(p, z, 0x1.71de3a556c734p-19);
  p = tessera_fma(p, z, -0x1.a01a01a01a01ap-13);
  p = tessera_fma(p, z, 0x1.1111111111111p-7);
  p = tessera_fma(p, z, -0x1.5555555555555p-3);
  return tessera_fma(r * z, p, r);
}
TESSERA_F double tessera_cos_quick(double r) {
  const double z = r * r;
  double p = -0x1.93974a8c07c9dp-37;
  p = tessera_fma(p, z, 0x1.1eed8eff8d898p-29);
  p = tessera_fma(p, z, -0x1.27e4fb7789f5cp-22);
  p = tessera_fma(p, z, 0x1.a01a01a01a01ap-16);
  p = tessera_fma(p, z, -0x1.6c16c16c16c17p-10);
  p = tessera_fma(p, z, 0x1.5555555555555p-5);
  p = tessera_fma(p, z, -0x1.0000000000000p-1);
  return tessera_fma(z, p, 1.0);
}
TESSERA_F double tessera_sin_at(double r, int quadrant) {
  const double v = quadrant & 1 ? tessera_cos_quick(r) : tessera_sin_quick(r);
  return quadrant & 2 ? -v : v;
}
/* Returns exp(x) with about 50 bits, for results that a double holds. */
TESSERA_F double tessera_exp_quick(double x) {
  const double k = tessera_rint(x * 0x1.71547652b82fep+0);
  const double r = tessera_fma(-k, 0x1.abc9e3b39803fp-56, tessera_fma(-k, 0x1.62e42fefa39efp-1, x));
  double p = 0x1.ae64567f544e4p-26;
  p = tessera_fma(p, r, 0x1.27e4fb7789f5cp-22);
  p = tessera_fma(p, r, 0x1.71de3a556c734p-19);
  p = tessera_fma(p, r, 0x1.a01a01a01a01ap-16);
  p = tessera_fma(p, r, 0x1.a01a01a01a01ap-13);
  p = tessera_fma(p, r, 0x1.6c16c16c16c17p-10);
  p = tessera_fma(p, r, 0x1.1111111111111p-7);
  p = tessera_fma(p, r, 0x1.5555555555555p-5);
  p = tessera_fma(p, r, 0x1.5555555555555p-3);
  p = tessera_fma(p, r, 0x1.0000000000000p-1);
  p = tessera_fma(p, r, 0x1.0000000000000p+0);
  p = tessera_fma(p, r, 0x1.0000000000000p+0);
  return p * tessera_bits((unsigned long long)(1023 + (int)k) << 52);
}
TESSERA_F double tessera_clamp(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}
/* Returns log2(m * 2^k), with about 50 bits, for a normal positive double. */
TESSERA_F double tessera_log_quick(double a) {
  unsigned long long bits = __nv_double_as_longlong(a);
  int k = (int)(bits >> 52) - 1023;
  double f = tessera_bits((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (f > 0x1.6a09e667f3bcdp+0) {
    f *= 0.5;
    k++;
  }
  const double s = (f - 1.0) / (f + 1.0), z = s * s;
  double p = 0x1.8618618618618p-4;
  p = tessera_fma(p, z, 0x1.af286bca1af28p-4);
  p = tessera_fma(p, z, 0x1.e1e1e1e1e1e1ep-4);
  p = tessera_fma(p, z, 0x1.1111111111111p-3);
  p = tessera_fma(p, z, 0x1.3b13b13b13b14p-3);
  p = tessera_fma(p, z, 0x1.745d1745d1746p-3);
  p = tessera_fma(p, z, 0x1.c71c71c71c71cp-3);
  p = tessera_fma(p, z, 0x1.2492492492492p-2);
  p = tessera_fma(p, z, 0x1.999999999999ap-2);
  p = tessera_fma(p, z, 0x1.5555555555555p-1);
  p = tessera_fma(p, z, 0x1.0000000000000p+1);
  return tessera_fma((double)k, 0x1.62e42fefa39efp-1, s * p);
}

extern "C" {
__device__ __inline__ float __nv_sinf(float a) {
  if (!tessera_is_finite(a)) return __nv_uint_as_float(0x7fffffff);
  int q;
  const double r = tessera_reduce_single(a, &q);
  return a == 0.0f ? a : (float)tessera_sin_at(r, q);
}
__device__ __inline__ float __nv_cosf(float a) {
  if (!tessera_is_finite(a)) return __nv_uint_as_float(0x7fffffff);
  int q;
  const double r = tessera_reduce_single(a, &q);
  return (float)tessera_sin_at(r, q + 1);
}
__device__ __inline__ void __nv_sincosf(float a, float *s, float *c) {
  *s = __nv_sinf(a);
  *c = __nv_cosf(a);
}
__device__ __inline__ float __nv_tanf(float a) {
  if (!tessera_is_finite(a)) return __nv_uint_as_float(0x7fffffff);
  int q;
  const double r = tessera_reduce_single(a, &q);
  return a == 0.0f ? a : (float)(tessera_sin_at(r, q) / tessera_sin_at(r, q + 1));
}
__device__ __inline__ float __nv_expf(float a) {
  return a != a ? a : (float)tessera_exp_quick(tessera_clamp(a, -110.0, 90.0));
}
__device__ __inline__ float __nv_exp2f(float a) {
  return a != a ? a : (float)tessera_exp_quick(tessera_clamp(a, -160.0, 130.0) * 0x1.62e42fefa39efp-1);
}
__device__ __inline__ float __nv_exp10f(float a) {
  return a != a ? a : (float)tessera_exp_quick(tessera_clamp(a, -48.0, 39.0) * 0x1.26bb1bbb55516p+1);
}
__device__ __inline__ float __nv_logf(float a) {
  double special;
  return (float)(tessera_log_special(a, &special) ? special : tessera_log_quick(a));
}
__device__ __inline__ float __nv_log2f(float a) {
  double special;
  if (tessera_log_special(a, &special)) return (float)special;
  return (float)(tessera_log_quick(a) * 0x1.71547652b82fep+0);
}
__device__ __inline__ float __nv_log10f(float a) {
  double special;
  if (tessera_log_special(a, &special)) return (float)special;
  return (float)(tessera_log_quick(a) * 0x1.bcb7b1526e50ep-2);
}
__device__ __inline__ float __nv_powf(float a, float b) {
  if (a > 0.0f && tessera_is_finite(a) && tessera_is_finite(b)) {
    return (float)tessera_exp_quick(tessera_clamp(b * tessera_log_quick(a), -110.0, 90.0));
  }
  return (float)__nv_pow(a, b);
}
__device__ __inline__ float __nv_powif(float a, int b) { return (float)__nv_pow(a, b); }
__device__ __inline__ float __nv_tanhf(float a) {
  const double x = tessera_abs(a);
  if (x < 0x1p-10) return (float)(a * (1.0 - a * (double)a * (1.0 / 3.0)));
  if (a != a) return a;
  const double e = tessera_exp_quick(2.0 * tessera_clamp(x, 0.0, 20.0));
  return (float)tessera_copysign((e - 1.0) / (e + 1.0), a);
}
#define TESSERA_SINGLE(name) \
  __device__ __inline__ float __nv_##name##f(float a) { return (float)__nv_##name(a); }
TESSERA_SINGLE(acos)
TESSERA_SINGLE(acosh)
TESSERA_SINGLE(asin)
TESSERA_SINGLE(asinh)
TESSERA_SINGLE(atan)
TESSERA_SINGLE(atanh)
TESSERA_SINGLE(cbrt)
TESSERA_SINGLE(cosh)
TESSERA_SINGLE(cospi)
TESSERA_SINGLE(erf)
TESSERA_SINGLE(erfc)
TESSERA_SINGLE(erfcinv)
TESSERA_SINGLE(erfcx)
TESSERA_SINGLE(erfinv)
TESSERA_SINGLE(expm1)
TESSERA_SINGLE(lgamma)
TESSERA_SINGLE(log1p)
TESSERA_SINGLE(normcdf)
TESSERA_SINGLE(normcdfinv)
TESSERA_SINGLE(rcbrt)
TESSERA_SINGLE(sinh)
TESSERA_SINGLE(sinpi)
TESSERA_SINGLE(tgamma)
#undef TESSERA_SINGLE
__device__ __inline__ float __nv_atan2f(float a, float b) { return (float)__nv_atan2(a, b); }
__device__ __inline__ void __nv_sincospif(float a, float *s, float *c) {
  *s = (float)__nv_sinpi(a);
  *c = (float)__nv_cospi(a);
}
}

#endif
