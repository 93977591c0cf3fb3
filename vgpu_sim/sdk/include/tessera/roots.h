/* Roots and norms in both precisions. */
#ifndef TESSERA_ROOTS_H
#define TESSERA_ROOTS_H

#include "double_double.h"
#include "rounding.h"

TESSERA_D double __nv_sqrt(double a) { return __nv_dsqrt_rn(a); }
TESSERA_D float __nv_sqrtf(float a) { return __nv_fsqrt_rn(a); }

extern "C" {
__device__ __inline__ double __nv_rsqrt(double a) {
  /* so that the low part of y^2 is no subnormal number */
  double scale = 1.0;
  if (tessera_abs(a) > 0x1p900) a *= 0x1p-200, scale = 0x1p-100;
  if (tessera_abs(a) < 0x1p-900) a *= 0x1p200, scale = 0x1p100;
  const double y = __nv_drcp_rn(__nv_dsqrt_rn(a));
  if (!(a > 0.0 && a < tessera_infinity())) return y;
  /* one step of Newton's method, with the residual 1 - a y^2 */
  const tessera_dd square = tessera_product(y, y);
  const double residual = tessera_fma(-a, square.lo, tessera_fma(-a, square.hi, 1.0));
  return scale * tessera_fma(0.5 * y, residual, y);
}
__device__ __inline__ double __nv_rcp64h(double a) {
  return __nv_hiloint2double(__nv_double2hiint(__nv_drcp_rn(a)), 0);
}
__device__ __inline__ double __nv_cbrt(double a) {
  if (a == 0.0 || !tessera_is_finite(a)) return a;
  int exponent;
  const double m = __nv_frexp(tessera_abs(a), &exponent);
  int third = exponent / 3, rest = exponent - 3 * third;
  if (rest < 0) {
    rest += 3;
    third--;
  }
  const double x = tessera_scale(m, rest); /* in [0.5, 4) */
  double y = 0.62 + 0.42 * x - 0.028 * x * x;
  for (int i = 0; i < 4; i++) { /* Halley's method triples the number of right digits */
    const double cube = y * y * y;
    y = y * (cube + 2.0 * x) / (2.0 * cube + x);
  }
  const tessera_dd square = tessera_product(y, y);
  const tessera_dd cube = tessera_product(square.hi, y);
  const double residual = ((x - cube.hi) - cube.lo) - square.lo * y;
  y += residual / (3.0 * y * y);
  return tessera_copysign(tessera_scale(y, third), a);
}
__device__ __inline__ double __nv_rcbrt(double a) {
  double scale = 1.0; /* as in __nv_rsqrt, for y^3 */
  if (tessera_abs(a) > 0x1p900) a *= 0x1p-300, scale = 0x1p-100;
  if (tessera_abs(a) < 0x1p-900) a *= 0x1p300, scale = 0x1p100;
  const double y = 1.0 / __nv_cbrt(a);
  if (a == 0.0 || !tessera_is_finite(a)) return y;
  const tessera_dd square = tessera_product(y, y);
  const tessera_dd cube = tessera_product(square.hi, y);
  const double low = tessera_fma(square.lo, y, cube.lo);
  const double residual = tessera_fma(-a, low, tessera_fma(-a, cube.hi, 1.0));
  return scale * tessera_fma(y * (1.0 / 3.0), residual, y);
}

/* Returns the root of a sum of squares; all squares are made with two doubles, after scaling. */
__device__ __inline__ double tessera_norm(const double *v, int count, bool reciprocal) {
  double largest = 0.0;
  bool nan = false;
  for (int i = 0; i < count; i++) {
    const double x = tessera_abs(v[i]);
    nan |= x != x;
    largest = x > largest ? x : largest;
  }
  if (largest == tessera_infinity()) return reciprocal ? 0.0 : largest;
  if (nan) return tessera_nan();
  if (largest == 0.0) return reciprocal ? tessera_infinity() : 0.0;
  int exponent;
  __nv_frexp(largest, &exponent);
  tessera_dd sum = {0.0, 0.0};
  for (int i = 0; i < count; i++) {
    const double x = tessera_scale(v[i], -exponent);
    const tessera_dd square = tessera_product(x, x);
    sum = tessera_dd_add(sum, square);
  }
  const double root = __nv_dsqrt_rn(sum.hi);
  const double rest = (tessera_fma(-root, root, sum.hi) + sum.lo) / (2.0 * root);
  if (!reciprocal) return tessera_scale(root + rest, exponent);
  const tessera_dd r = tessera_dd_div({1.0, 0.0}, tessera_fast_sum(root, rest));
  return tessera_scale(r.hi + r.lo, -exponent);
}
#define TESSERA_NORMS(suffix, type)                                                              \
  __device__ __inline__ type __nv_hypot##suffix(type a, type b) {                                \
    const double v[] = {a, b};                                                                   \
    return (type)tessera_norm(v, 2, false);                                                      \
  }                                                                                              \
  __device__ __inline__ type __nv_rhypot##suffix(type a, type b) {                               \
    const double v[] = {a, b};                                                                   \
    return (type)tessera_norm(v, 2, true);                                                       \
  }                                                                                              \
  __device__ __inline__ type __nv_norm3d##suffix(type a, type b, type c) {                       \
    const double v[] = {a, b, c};                                                                \
    return (type)tessera_norm(v, 3, false);                                                      \
  }                                                                                              \
  __device__ __inline__ type __nv_rnorm3d##suffix(type a, type b, type c) {                      \
    const double v[] = {a, b, c};                                                                \
    return (type)tessera_norm(v, 3, true);                                                       \
  }                                                                                              \
  __device__ __inline__ type __nv_norm4d##suffix(type a, type b, type c, type d) {               \
    const double v[] = {a, b, c, d};                                                             \
    return (type)tessera_norm(v, 4, false);                                                      \
  }                                                                                              \
  __device__ __inline__ type __nv_rnorm4d##suffix(type a, type b, type c, type d) {              \
    const double v[] = {a, b, c, d};                                                             \
    return (type)tessera_norm(v, 4, true);                                                       \
  }                                                                                              \
  __device__ __inline__ type __nv_norm##suffix(int count, const type *v) {                       \
    double r = 0.0;                                                                              \
    for (int i = 0; i < count; i++) r = __nv_hypot(r, v[i]);                                     \
    return (type)r;                                                                              \
  }                                                                                              \
  __device__ __inline__ type __nv_rnorm##suffix(int count, const type *v) {                      \
    double r = 0.0;                                                                              \
    for (int i = 0; i < count; i++) r = __nv_hypot(r, v[i]);                                     \
    return (type)(1.0 / r);                                                                      \
  }
TESSERA_NORMS(, double)
TESSERA_NORMS(f, float)
#undef TESSERA_NORMS
}

#endif
