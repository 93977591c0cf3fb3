/* Rounding to integers, remainders, parts of a number, and comparisons. */
#ifndef TESSERA_ROUNDING_H
#define TESSERA_ROUNDING_H

#include "double_double.h"

#define TESSERA_ROUND(name, mode)                                                    \
  TESSERA_D double __nv_##name(double a) {                                           \
    double r;                                                                        \
    __asm__("cvt." mode ".f64.f64 %0, %1;" : "=d"(r) : "d"(a));                      \
    return r;                                                                        \
  }                                                                                  \
  TESSERA_D float __nv_##name##f(float a) {                                          \
    float r;                                                                         \
    __asm__("cvt." mode ".f32.f32 %0, %1;" : "=f"(r) : "f"(a));                      \
    return r;                                                                        \
  }
TESSERA_ROUND(ceil, "rpi")
TESSERA_ROUND(floor, "rmi")
TESSERA_ROUND(trunc, "rzi")
TESSERA_ROUND(rint, "rni")
TESSERA_ROUND(nearbyint, "rni")
#undef TESSERA_ROUND

TESSERA_D double __nv_round(double a) {
  const double t = __nv_trunc(a);
  const double r = tessera_abs(a - t) >= 0.5 ? t + tessera_copysign(1.0, a) : t;
  return tessera_abs(a) < 0x1p52 ? tessera_copysign(r, a) : a;
}
TESSERA_D float __nv_roundf(float a) { return (float)__nv_round(a); }
TESSERA_D long long __nv_llrint(double a) { return __nv_double2ll_rn(a); }
TESSERA_D long long __nv_llrintf(float a) { return __nv_float2ll_rn(a); }
TESSERA_D long long __nv_llround(double a) { return __nv_double2ll_rz(__nv_round(a)); }
TESSERA_D long long __nv_llroundf(float a) { return __nv_double2ll_rz(__nv_round(a)); }

TESSERA_D double __nv_fabs(double a) { return __builtin_fabs(a); }
TESSERA_D float __nv_fabsf(float a) { return __builtin_fabsf(a); }
TESSERA_D double __nv_copysign(double a, double b) { return __builtin_copysign(a, b); }
TESSERA_D float __nv_copysignf(float a, float b) { return __builtin_copysignf(a, b); }
TESSERA_D double __nv_fmax(double a, double b) { return __builtin_fmax(a, b); }
TESSERA_D float __nv_fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
TESSERA_D double __nv_fmin(double a, double b) { return __builtin_fmin(a, b); }
TESSERA_D float __nv_fminf(float a, float b) { return __builtin_fminf(a, b); }
TESSERA_D double __nv_fdim(double a, double b) { return a != a || b != b ? a + b : a > b ? a - b : 0.0; }
TESSERA_D float __nv_fdimf(float a, float b) { return a != a || b != b ? a + b : a > b ? a - b : 0.0f; }

TESSERA_D int __nv_isnand(double a) { return a != a; }
TESSERA_D int __nv_isnanf(float a) { return a != a; }
TESSERA_D int __nv_isinfd(double a) { return tessera_abs(a) == tessera_infinity(); }
TESSERA_D int __nv_isinff(float a) { return tessera_abs(a) == tessera_infinity(); }
TESSERA_D int __nv_isfinited(double a) { return tessera_is_finite(a); }
TESSERA_D int __nv_finitef(float a) { return tessera_is_finite(a); }
TESSERA_D int __nv_signbitd(double a) { return __nv_double_as_longlong(a) >> 63 != 0; }
TESSERA_D int __nv_signbitf(float a) { return __nv_float_as_uint(a) >> 31 != 0; }
TESSERA_D double __nv_nan(const signed char *) { return tessera_nan(); }
TESSERA_D float __nv_nanf(const signed char *) { return __nv_uint_as_float(0x7fffffff); }

extern "C" {
__device__ __inline__ double __nv_ldexp(double a, int b) { return tessera_scale(a, b); }
__device__ __inline__ double __nv_scalbn(double a, int b) { return tessera_scale(a, b); }
__device__ __inline__ float __nv_ldexpf(float a, int b) {
  b = b < -400 ? -400 : b > 400 ? 400 : b;
  return (float)tessera_scale(a, b); /* a double holds every such product exactly */
}
__device__ __inline__ float __nv_scalbnf(float a, int b) { return __nv_ldexpf(a, b); }
__device__ __inline__ double __nv_frexp(double a, int *exponent) {
  *exponent = 0;
  if (a == 0.0 || !tessera_is_finite(a)) return a;
  int more = 0;
  if (tessera_abs(a) < 0x1p-1022) {
    a *= 0x1p54;
    more = -54;
  }
  const unsigned long long bits = __nv_double_as_longlong(a);
  *exponent = (int)(bits >> 52 & 0x7ff) - 1022 + more;
  return tessera_bits((bits & 0x800fffffffffffffull) | 0x3fe0000000000000ull);
}
__device__ __inline__ float __nv_frexpf(float a, int *exponent) {
  return (float)__nv_frexp(a, exponent);
}
__device__ __inline__ int __nv_ilogb(double a) {
  if (a == 0.0 || a != a) return (int)0x80000000;
  if (!tessera_is_finite(a)) return 0x7fffffff;
  int exponent;
  __nv_frexp(a, &exponent);
  return exponent - 1;
}
__device__ __inline__ int __nv_ilogbf(float a) { return __nv_ilogb(a); }
__device__ __inline__ double __nv_logb(double a) {
  if (a == 0.0) return -tessera_infinity();
  if (!tessera_is_finite(a)) return a * a;
  return __nv_ilogb(a);
}
__device__ __inline__ float __nv_logbf(float a) { return (float)__nv_logb(a); }
__device__ __inline__ double __nv_modf(double a, double *whole) {
  *whole = __nv_trunc(a);
  return tessera_copysign(tessera_is_finite(a) ? a - *whole : a == a ? 0.0 : a, a);
}
__device__ __inline__ float __nv_modff(float a, float *whole) {
  *whole = __nv_truncf(a);
  return __builtin_copysignf(tessera_is_finite(a) ? a - *whole : a == a ? 0.0f : a, a);
}
__device__ __inline__ double __nv_nextafter(double a, double b) {
  if (a != a || b != b) return a + b;
  if (a == b) return b;
  if (a == 0.0) return tessera_copysign(0x1p-1074, b);
  const unsigned long long bits = __nv_double_as_longlong(a);
  return tessera_bits((a < b) == (a > 0.0) ? bits + 1 : bits - 1);
}
__device__ __inline__ float __nv_nextafterf(float a, float b) {
  if (a != a || b != b) return a + b;
  if (a == b) return b;
  if (a == 0.0f) return __builtin_copysignf(0x1p-149f, b);
  const unsigned int bits = __nv_float_as_uint(a);
  return __nv_uint_as_float((a < b) == (a > 0.0f) ? bits + 1 : bits - 1);
}

/* Returns |a| - n |b| for the whole number n = trunc(|a| / |b|), exactly; *low is n's low bits. */
__device__ __inline__ double tessera_remainder(double a, double b, unsigned int *low) {
  double rest = tessera_abs(a);
  b = tessera_abs(b);
  unsigned int n = 0;
  int first, second;
  __nv_frexp(rest, &first);
  __nv_frexp(b, &second);
  for (int i = rest < b ? -1 : first - second; i >= 0; i--) {
    const double part = tessera_scale(b, i); /* exact: at most about twice a */
    n <<= 1;
    if (part <= rest) {
      rest -= part;
      n |= 1;
    }
  }
  *low = n;
  return rest;
}
__device__ __inline__ double __nv_fmod(double a, double b) {
  if (a != a || b != b || !tessera_is_finite(a) || b == 0.0) return tessera_nan();
  if (!tessera_is_finite(b)) return a;
  unsigned int n;
  return tessera_copysign(tessera_remainder(a, b, &n), a);
}
__device__ __inline__ double __nv_remquo(double a, double b, int *quotient) {
  *quotient = 0;
  if (a != a || b != b || !tessera_is_finite(a) || b == 0.0) return tessera_nan();
  if (!tessera_is_finite(b)) return a;
  unsigned int n;
  double rest = tessera_remainder(a, b, &n);
  const double size = tessera_abs(b), over = size - rest;
  if (rest > over || (rest == over && (n & 1))) {
    rest -= size;
    n++;
  }
  const bool negative = __builtin_signbit(a) != __builtin_signbit(b);
  *quotient = negative ? -(int)(n & 0x7fffffff) : (int)(n & 0x7fffffff);
  if (rest == 0.0) return tessera_copysign(0.0, a);
  return __builtin_signbit(a) ? -rest : rest;
}
__device__ __inline__ double __nv_remainder(double a, double b) {
  int quotient;
  return __nv_remquo(a, b, &quotient);
}
__device__ __inline__ float __nv_fmodf(float a, float b) { return (float)__nv_fmod(a, b); }
__device__ __inline__ float __nv_remainderf(float a, float b) { return (float)__nv_remainder(a, b); }
__device__ __inline__ float __nv_remquof(float a, float b, int *quotient) {
  return (float)__nv_remquo(a, b, quotient);
}
}

#endif
