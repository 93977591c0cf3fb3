/* Exponentials, logarithms, powers and hyperbolic functions in double precision. */
#ifndef TESSERA_EXPONENTIAL_H
#define TESSERA_EXPONENTIAL_H

#include "double_double.h"

/* Returns exp(x) with about 66 bits, times 2^-k with k in *exponent. Requires |x.hi| < 800. */
TESSERA_F tessera_dd tessera_exp_parts(tessera_dd x, int *exponent) {
  const double k = tessera_rint(x.hi * 0x1.71547652b82fep+0);
  const tessera_dd head = tessera_sum(tessera_fma(-k, 0x1.62e42fee00000p-1, x.hi), -tessera_mul(k, 0x1.a39ef35793c76p-33));
  const double ln2_rest = tessera_fma(k, 0x1.a39ef35793c76p-33, -tessera_mul(k, 0x1.a39ef35793c76p-33));
  const double lo = tessera_add(
      tessera_sub(tessera_sub(head.lo, ln2_rest), k * 0x1.cc01f97b57a08p-87), x.lo);
  const tessera_dd r = tessera_fast_sum(head.hi, lo);
  *exponent = (int)k;
  double p = 0x1.93974a8c07c9dp-37;
  p = tessera_fma(p, r.hi, 0x1.6124613a86d09p-33);
  p = tessera_fma(p, r.hi, 0x1.1eed8eff8d898p-29);
  p = tessera_fma(p, r.hi, 0x1.ae64567f544e4p-26);
  p = tessera_fma(p, r.hi, 0x1.27e4fb7789f5cp-22);
  p = tessera_fma(p, r.hi, 0x1.71de3a556c734p-19);
  p = tessera_fma(p, r.hi, 0x1.a01a01a01a01ap-16);
  p = tessera_fma(p, r.hi, 0x1.a01a01a01a01ap-13);
  p = tessera_fma(p, r.hi, 0x1.6c16c16c16c17p-10);
  p = tessera_fma(p, r.hi, 0x1.1111111111111p-7);
  p = tessera_fma(p, r.hi, 0x1.5555555555555p-5);
  /* 1 + r + r^2 / 2 + r^3 / 6 with two doubles, the rest with one */
  tessera_dd square = tessera_dd_mul(r, r);
  const tessera_dd cube = tessera_dd_mul(square, r);
  const tessera_dd sixth = {0x1.5555555555555p-3, 0x1.5555555555555p-57};
  tessera_dd tail = tessera_dd_mul(cube, sixth);
  tail.lo = tessera_fma(p, tessera_mul(square.hi, square.hi), tail.lo);
  square.hi *= 0.5;
  square.lo *= 0.5;
  return tessera_dd_add(tessera_dd_add({1.0, 0.0}, r), tessera_dd_add(square, tail));
}

TESSERA_F double tessera_exp_dd(tessera_dd x) {
  if (!(x.hi < 710.0)) return x.hi != x.hi ? x.hi : tessera_infinity();
  if (x.hi < -746.0) return 0.0;
  int k;
  const tessera_dd e = tessera_exp_parts(x, &k);
  return tessera_scale(e.hi + e.lo, k);
}

/* Returns log(a) with about 66 bits, for a > 0 that is finite. */
TESSERA_F tessera_dd tessera_log_dd(double a) {
  int k = 0;
  if (a < 0x1p-1022) {
    a *= 0x1p54;
    k = -54;
  }
  unsigned long long bits = __nv_double_as_longlong(a);
  k += (int)(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
  double m = tessera_bits(bits);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    k++;
  }
  /* log(m) = 2 atanh(s), s = (m - 1) / (m + 1) */
  const tessera_dd s = tessera_dd_div({m - 1.0, 0.0}, tessera_sum(m, 1.0));
  const tessera_dd z = tessera_dd_mul(s, s);
  double p = 0x1.47ae147ae147bp-4;
  p = tessera_fma(p, z.hi, 0x1.642c8590b2164p-4);
  p = tessera_fma(p, z.hi, 0x1.8618618618618p-4);
  p = tessera_fma(p, z.hi, 0x1.af286bca1af28p-4);
  p = tessera_fma(p, z.hi, 0x1.e1e1e1e1e1e1ep-4);
  p = tessera_fma(p, z.hi, 0x1.1111111111111p-3);
  p = tessera_fma(p, z.hi, 0x1.3b13b13b13b14p-3);
  p = tessera_fma(p, z.hi, 0x1.745d1745d1746p-3);
  p = tessera_fma(p, z.hi, 0x1.c71c71c71c71cp-3);
  p = tessera_fma(p, z.hi, 0x1.2492492492492p-2);
  const tessera_dd two_fifths = {0x1.999999999999ap-2, -0x1.999999999999ap-56};
  const tessera_dd two_thirds = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
  tessera_dd inner = tessera_fast_sum(two_fifths.hi, tessera_fma(p, z.hi, two_fifths.lo));
  inner = tessera_dd_add(two_thirds, tessera_dd_mul(z, inner));
  inner = tessera_dd_mul(tessera_dd_mul(s, z), inner);
  const tessera_dd mantissa = tessera_dd_add({2.0 * s.hi, 2.0 * s.lo}, inner);
  const double e = k;
  tessera_dd exponent = tessera_product(e, 0x1.a39ef35793c76p-33);
  exponent.lo = tessera_fma(e, 0x1.cc01f97b57a08p-87, exponent.lo);
  exponent = tessera_dd_add({e * 0x1.62e42fee00000p-1, 0.0}, exponent);
  return tessera_dd_add(exponent, mantissa);
}

/* Returns whether log's result is known without computing it; *result is it. */
TESSERA_I bool tessera_log_special(double a, double *result) {
  if (a > 0.0 && a < tessera_infinity()) return false;
  *result = a == 0.0 ? -tessera_infinity() : a > 0.0 ? a : tessera_nan();
  return true;
}

extern "C" {
__device__ __inline__ double __nv_exp(double a) { return tessera_exp_dd({a, 0.0}); }
__device__ __inline__ double __nv_exp2(double a) {
  if (!(tessera_abs(a) < 1100.0)) return a != a ? a : a > 0.0 ? tessera_infinity() : 0.0;
  const double k = tessera_rint(a);
  int more;
  tessera_dd x = tessera_product(a - k, 0x1.62e42fefa39efp-1);
  x.lo = tessera_fma(a - k, 0x1.abc9e3b39803fp-56, x.lo);
  const tessera_dd e = tessera_exp_parts(x, &more);
  return tessera_scale(e.hi + e.lo, (int)k + more);
}
__device__ __inline__ double __nv_exp10(double a) {
  if (!(tessera_abs(a) < 330.0)) return a != a ? a : a > 0.0 ? tessera_infinity() : 0.0;
  tessera_dd x = tessera_product(a, 0x1.26bb1bbb55516p+1);
  x.lo = tessera_fma(a, -0x1.f48ad494ea3e9p-53, x.lo);
  if (x.hi > 709.9) return tessera_infinity();
  return tessera_exp_dd(x);
}
__device__ __inline__ double __nv_log(double a) {
  double special;
  if (tessera_log_special(a, &special)) return special;
  const tessera_dd l = tessera_log_dd(a);
  return l.hi + l.lo;
}
__device__ __inline__ double __nv_log10(double a) {
  double special;
  if (tessera_log_special(a, &special)) return special;
  const tessera_dd l = tessera_dd_mul(tessera_log_dd(a), {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57});
  return l.hi + l.lo;
}
__device__ __inline__ double __nv_log2(double a) {
  double special;
  if (tessera_log_special(a, &special)) return special;
  const tessera_dd l = tessera_dd_mul(tessera_log_dd(a), {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56});
  return l.hi + l.lo;
}
__device__ __inline__ double __nv_log1p(double a) {
  if (!(a > -1.0 && a < tessera_infinity())) {
    return a == -1.0 ? -tessera_infinity() : a > 0.0 ? a : tessera_nan();
  }
  if (tessera_abs(a) < 0x1p-54) return a;
  const tessera_dd u = tessera_sum(1.0, a);
  const tessera_dd l = tessera_log_dd(u.hi);
  const double rest = u.lo / u.hi;
  const tessera_dd sum = tessera_dd_add(l, {rest, -0.5 * rest * rest});
  return sum.hi + sum.lo;
}
__device__ __inline__ double __nv_expm1(double a) {
  if (a == 0.0) return a;
  if (tessera_abs(a) < 0.34) {
    double p = 0x1.ae7f3e733b81fp-45;
    p = tessera_fma(p, a, 0x1.ae7f3e733b81fp-41);
    p = tessera_fma(p, a, 0x1.93974a8c07c9dp-37);
    p = tessera_fma(p, a, 0x1.6124613a86d09p-33);
    p = tessera_fma(p, a, 0x1.1eed8eff8d898p-29);
    p = tessera_fma(p, a, 0x1.ae64567f544e4p-26);
    p = tessera_fma(p, a, 0x1.27e4fb7789f5cp-22);
    p = tessera_fma(p, a, 0x1.71de3a556c734p-19);
    p = tessera_fma(p, a, 0x1.a01a01a01a01ap-16);
    p = tessera_fma(p, a, 0x1.a01a01a01a01ap-13);
    p = tessera_fma(p, a, 0x1.6c16c16c16c17p-10);
    p = tessera_fma(p, a, 0x1.1111111111111p-7);
    p = tessera_fma(p, a, 0x1.5555555555555p-5);
    p = tessera_fma(p, a, 0x1.5555555555555p-3);
    p = tessera_fma(p, a, 0x1.0000000000000p-1);
    return tessera_fma(a * a, p, a);
  }
  if (!(a < 710.0)) return a != a ? a : tessera_infinity();
  if (a < -40.0) return -1.0;
  int k;
  const tessera_dd e = tessera_exp_parts({a, 0.0}, &k);
  if (k > 1000) return tessera_scale(e.hi + e.lo, k);
  const double two = tessera_scale(1.0, k);
  const tessera_dd r = tessera_dd_add({e.hi * two, e.lo * two}, {-1.0, 0.0});
  return r.hi + r.lo;
}
__device__ __inline__ double __nv_pow(double a, double b) {
  if (b == 0.0 || a == 1.0) return 1.0;
  if (a != a || b != b) return a + b;
  const double size = tessera_abs(a);
  const bool whole = tessera_abs(b) >= 0x1p52 || tessera_rint(b) == b;
  const bool odd = whole && tessera_abs(b) < 0x1p53 && ((long long)b & 1);
  double r;
  if (!tessera_is_finite(b)) {
    if (size == 1.0) return 1.0;
    return (size > 1.0) == (b > 0.0) ? tessera_infinity() : 0.0;
  }
  if (size == 0.0 || !tessera_is_finite(size)) {
    r = (size == 0.0) == (b > 0.0) ? 0.0 : tessera_infinity();
  } else {
    if (a < 0.0 && !whole) return tessera_nan();
    const tessera_dd l = tessera_log_dd(size);
    const double rough = b * l.hi;
    if (rough > 710.0) {
      r = tessera_infinity();
    } else if (rough < -746.0) {
      r = 0.0;
    } else {
      tessera_dd x = tessera_product(b, l.hi);
      x = tessera_fast_sum(x.hi, tessera_fma(b, l.lo, x.lo));
      r = tessera_exp_dd(x);
    }
  }
  return odd && __builtin_signbit(a) ? -r : r;
}
__device__ __inline__ double __nv_powi(double a, int b) { return __nv_pow(a, b); }
__device__ __inline__ double __nv_cosh(double a) {
  const double x = tessera_abs(a);
  if (!(x < 711.0)) return x != x ? x : tessera_infinity();
  int k;
  const tessera_dd e = tessera_exp_parts({x, 0.0}, &k);
  if (x > 40.0) return tessera_scale(e.hi + e.lo, k - 1);
  const double two = tessera_scale(1.0, k);
  const tessera_dd big = {e.hi * two, e.lo * two};
  const tessera_dd r = tessera_dd_add(big, tessera_dd_div({1.0, 0.0}, big));
  return 0.5 * (r.hi + r.lo);
}
__device__ __inline__ double __nv_sinh(double a) {
  const double x = tessera_abs(a);
  if (x < 0.5) {
    const double z = a * a;
    double p = 0x1.952c77030ad4ap-49;
    p = tessera_fma(p, z, 0x1.ae7f3e733b81fp-41);
    p = tessera_fma(p, z, 0x1.6124613a86d09p-33);
    p = tessera_fma(p, z, 0x1.ae64567f544e4p-26);
    p = tessera_fma(p, z, 0x1.71de3a556c734p-19);
    p = tessera_fma(p, z, 0x1.a01a01a01a01ap-13);
    p = tessera_fma(p, z, 0x1.1111111111111p-7);
    p = tessera_fma(p, z, 0x1.5555555555555p-3);
    return tessera_fma(a * z, p, a);
  }
  if (!(x < 711.0)) return a * tessera_infinity();
  int k;
  const tessera_dd e = tessera_exp_parts({x, 0.0}, &k);
  if (x > 40.0) return tessera_copysign(tessera_scale(e.hi + e.lo, k - 1), a);
  const double two = tessera_scale(1.0, k);
  const tessera_dd big = {e.hi * two, e.lo * two};
  const tessera_dd small = tessera_dd_div({1.0, 0.0}, big);
  const tessera_dd r = tessera_dd_add(big, {-small.hi, -small.lo});
  return tessera_copysign(0.5 * (r.hi + r.lo), a);
}
__device__ __inline__ double __nv_tanh(double a) {
  const double x = tessera_abs(a);
  if (x != x) return a;
  if (x > 20.0) return tessera_copysign(1.0, a);
  if (x < 0x1p-28) return a;
  if (x < 0.25) { /* sinh / cosh, with all bits of the leading terms */
    const double z = x * x;
    double p = 0x1.ae7f3e733b81fp-41;
    p = tessera_fma(p, z, 0x1.6124613a86d09p-33);
    p = tessera_fma(p, z, 0x1.ae64567f544e4p-26);
    p = tessera_fma(p, z, 0x1.71de3a556c734p-19);
    p = tessera_fma(p, z, 0x1.a01a01a01a01ap-13);
    p = tessera_fma(p, z, 0x1.1111111111111p-7);
    p = tessera_fma(p, z, 0x1.5555555555555p-3);
    const double sine = x * z * p;
    double q = 0x1.93974a8c07c9dp-37;
    q = tessera_fma(q, z, 0x1.1eed8eff8d898p-29);
    q = tessera_fma(q, z, 0x1.27e4fb7789f5cp-22);
    q = tessera_fma(q, z, 0x1.a01a01a01a01ap-16);
    q = tessera_fma(q, z, 0x1.6c16c16c16c17p-10);
    q = tessera_fma(q, z, 0x1.5555555555555p-5);
    q = tessera_fma(q, z, 0x1.0000000000000p-1);
    const tessera_dd t =
        tessera_dd_div(tessera_fast_sum(x, sine), tessera_fast_sum(1.0, z * q));
    return tessera_copysign(t.hi + t.lo, a);
  }
  int k;
  const tessera_dd e = tessera_exp_parts({2.0 * x, 0.0}, &k);
  const double two = tessera_scale(1.0, k);
  const tessera_dd big = {e.hi * two, e.lo * two};
  const tessera_dd t = tessera_dd_div({2.0, 0.0}, tessera_dd_add(big, {1.0, 0.0}));
  const tessera_dd r = tessera_dd_add({1.0, 0.0}, {-t.hi, -t.lo});
  return tessera_copysign(r.hi + r.lo, a);
}
__device__ __inline__ double __nv_asinh(double a) {
  const double x = tessera_abs(a);
  if (!(x < tessera_infinity()) || x < 0x1p-28) return a;
  if (x > 0x1p28) {
    const tessera_dd l = tessera_dd_add(tessera_log_dd(x), {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56});
    return tessera_copysign(l.hi + l.lo, a);
  }
  /* log1p(x + x^2 / (1 + sqrt(1 + x^2))) */
  return tessera_copysign(__nv_log1p(x + x * x / (1.0 + __builtin_sqrt(tessera_fma(x, x, 1.0)))), a);
}
__device__ __inline__ double __nv_acosh(double a) {
  if (!(a >= 1.0)) return tessera_nan();
  if (a > 0x1p28) {
    if (a == tessera_infinity()) return a;
    const tessera_dd l = tessera_dd_add(tessera_log_dd(a), {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56});
    return l.hi + l.lo;
  }
  const double t = a - 1.0;
  return __nv_log1p(t + __builtin_sqrt(tessera_fma(t, t, 2.0 * t)));
}
__device__ __inline__ double __nv_atanh(double a) {
  const double x = tessera_abs(a);
  if (!(x <= 1.0)) return tessera_nan();
  return tessera_copysign(0.5 * __nv_log1p(2.0 * x / (1.0 - x)), a);
}
}

#endif
