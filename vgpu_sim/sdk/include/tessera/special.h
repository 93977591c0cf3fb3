/* Error functions and gamma functions in double precision, and their inverses. */
#ifndef TESSERA_SPECIAL_H
#define TESSERA_SPECIAL_H

#include "exponential.h"
#include "trigonometric.h"

/* Returns exp(x^2) erfc(x) for x >= 0: a polynomial in (x - 4) / (x + 4), over 1 + 2x. The form is
 * that of M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x
 * in 0 <= x < inf, Mathematics of Computation 36(153), 1981, pp. 249-253; the coefficients are our
 * own, computed with 400 bits. */
TESSERA_F double tessera_erfcx_positive(double x) {
  if (x > 0x1p30) return 0x1.20dd750429b6dp-1 / x;
  const tessera_dd t = tessera_dd_div(tessera_sum(x, -4.0), tessera_sum(x, 4.0));
  double p = -0x1.c2a3c4c2d2013p-38;
  p = tessera_fma(p, t.hi, 0x1.8c989018c21cfp-36);
  p = tessera_fma(p, t.hi, 0x1.7d08fcd728099p-34);
  p = tessera_fma(p, t.hi, -0x1.3e753e6dd438bp-32);
  p = tessera_fma(p, t.hi, -0x1.74a11d17f7d58p-31);
  p = tessera_fma(p, t.hi, 0x1.34cdbd4260a27p-29);
  p = tessera_fma(p, t.hi, 0x1.213798313f0d2p-28);
  p = tessera_fma(p, t.hi, -0x1.0a7cc7db5ad19p-26);
  p = tessera_fma(p, t.hi, -0x1.7d069b449d2cbp-26);
  p = tessera_fma(p, t.hi, 0x1.dccbd2814b683p-24);
  p = tessera_fma(p, t.hi, 0x1.53e52683d1a91p-24);
  p = tessera_fma(p, t.hi, -0x1.bb41e878fb501p-21);
  p = tessera_fma(p, t.hi, 0x1.383d73d84695cp-22);
  p = tessera_fma(p, t.hi, 0x1.7f2a028a2d119p-18);
  p = tessera_fma(p, t.hi, -0x1.78812ecfb199fp-17);
  p = tessera_fma(p, t.hi, -0x1.9959498e06791p-16);
  p = tessera_fma(p, t.hi, 0x1.3be03167f58a9p-13);
  p = tessera_fma(p, t.hi, -0x1.a1df25a7c8971p-13);
  p = tessera_fma(p, t.hi, -0x1.8d4a9980d7508p-11);
  p = tessera_fma(p, t.hi, 0x1.49c67286aa36bp-8);
  p = tessera_fma(p, t.hi, -0x1.0962388556613p-6);
  p = tessera_fma(p, t.hi, 0x1.3079edf680f01p-5);
  p = tessera_fma(p, t.hi, -0x1.0fb06dfe487d1p-4);
  p = tessera_fma(p, t.hi, 0x1.7fee004e12606p-4);
  p = tessera_fma(p, t.hi, -0x1.9ddb23c3e911dp-4);
  p = tessera_fma(p, t.hi, 0x1.16ecefcfa5391p-4);
  p = tessera_fma(p, t.hi, 0x1.f7f5df66fd7bfp-7);
  p = tessera_fma(p, t.hi, -0x1.1df1ad154a28ep-3);
  const tessera_dd product = tessera_product(p, t.hi);
  tessera_dd sum = tessera_sum(0x1.3ba5916e9fd7fp+0, product.hi);
  sum.lo += product.lo + p * t.lo + -0x1.aa9c415679e6fp-55;
  const tessera_dd r = tessera_dd_div(sum, tessera_sum(1.0, 2.0 * x));
  return r.hi + r.lo;
}

/* Returns erfc(x) for x >= 0. */
TESSERA_F double tessera_erfc_positive(double x) {
  if (x > 28.0) return 0.0;
  const tessera_dd square = tessera_product(x, x);
  int k;
  const tessera_dd e = tessera_exp_parts({-square.hi, -square.lo}, &k);
  return tessera_scale((e.hi + e.lo) * tessera_erfcx_positive(x), k);
}

TESSERA_F tessera_dd tessera_stirling(double x) {
  const double z = 1.0 / (x * x);
  double p = -0x1.6476701181f3ap+0;
  p = tessera_fma(p, z, 0x1.6fe96381e0680p-3);
  p = tessera_fma(p, z, -0x1.e4286cb0f5398p-6);
  p = tessera_fma(p, z, 0x1.a41a41a41a41ap-8);
  p = tessera_fma(p, z, -0x1.f6ab0d9993c7dp-10);
  p = tessera_fma(p, z, 0x1.b951e2b18ff23p-11);
  p = tessera_fma(p, z, -0x1.3813813813814p-11);
  p = tessera_fma(p, z, 0x1.a01a01a01a01ap-11);
  p = tessera_fma(p, z, -0x1.6c16c16c16c17p-9);
  p = tessera_fma(p, z, 0x1.5555555555555p-4);
  tessera_dd l = tessera_dd_mul(tessera_log_dd(x), tessera_sum(x, -0.5));
  l = tessera_dd_add(l, {-x, 0.0});
  return tessera_dd_add(l, {0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55 + p / x});
}

/* Returns gamma(x) for 0 < x, as the product of an exponential and a quotient. */
TESSERA_F double tessera_gamma_positive(double x) {
  tessera_dd divisor = {1.0, 0.0};
  tessera_dd at = {x, 0.0};
  while (at.hi < 12.0) {
    divisor = tessera_dd_mul(divisor, at);
    at = tessera_dd_add(at, {1.0, 0.0});
  }
  tessera_dd l = tessera_stirling(at.hi);
  l.lo += at.lo * __nv_log(at.hi);
  if (l.hi > 709.9) return tessera_infinity();
  int k;
  const tessera_dd e = tessera_exp_parts(tessera_fast_sum(l.hi, l.lo), &k);
  const tessera_dd q = tessera_dd_div(e, divisor);
  return tessera_scale(q.hi + q.lo, k);
}

/* Returns lgamma(x) for 0 < x. */
TESSERA_F double tessera_lgamma_positive(double x) {
  if (x < 0.5) {
    if (x < 0x1p-60) return -__nv_log(x);
    const double t = 2.0 * x;
    double p = 0x1.e82f36a9ebf04p-34;
    p = tessera_fma(p, t, -0x1.f6405ef75d2b1p-33);
    p = tessera_fma(p, t, -0x1.acb279e17b7e0p-32);
    p = tessera_fma(p, t, 0x1.b81f84611c906p-31);
    p = tessera_fma(p, t, 0x1.77744825c419ep-30);
    p = tessera_fma(p, t, -0x1.8294b8e5e9aa7p-29);
    p = tessera_fma(p, t, -0x1.0f0f6d96fd300p-31);
    p = tessera_fma(p, t, 0x1.0e011df6ae5bbp-30);
    p = tessera_fma(p, t, 0x1.d251f84c36305p-28);
    p = tessera_fma(p, t, -0x1.e506d33bd679dp-27);
    p = tessera_fma(p, t, 0x1.674bb4d550f6fp-26);
    p = tessera_fma(p, t, -0x1.7942ece73c73dp-25);
    p = tessera_fma(p, t, 0x1.a6a7503c96c34p-24);
    p = tessera_fma(p, t, -0x1.bd648708bd760p-23);
    p = tessera_fma(p, t, 0x1.d377fa514b946p-22);
    p = tessera_fma(p, t, -0x1.efc2e5b3a1a9ep-21);
    p = tessera_fma(p, t, 0x1.07ffb45913e6cp-19);
    p = tessera_fma(p, t, -0x1.1a2b63e6a3878p-18);
    p = tessera_fma(p, t, 0x1.2f049efec167ap-17);
    p = tessera_fma(p, t, -0x1.473656c6714d6p-16);
    p = tessera_fma(p, t, 0x1.639f39e0fd2a2p-15);
    p = tessera_fma(p, t, -0x1.85792e0a5a32ep-14);
    p = tessera_fma(p, t, 0x1.ae8a99e44744dp-13);
    p = tessera_fma(p, t, -0x1.e18246ed52047p-12);
    p = tessera_fma(p, t, 0x1.115549e61c7dfp-10);
    p = tessera_fma(p, t, -0x1.3cb1f9d3c5175p-9);
    p = tessera_fma(p, t, 0x1.79cf9c4c59e70p-8);
    p = tessera_fma(p, t, -0x1.d7a3e6a8f2307p-7);
    p = tessera_fma(p, t, 0x1.3e54520481ec5p-5);
    p = tessera_fma(p, t, -0x1.f6465978d46e9p-4);
    p = tessera_fma(p, t, 0x1.2788cfc6fb619p-1);
    return tessera_fma(p, x * (x - 1.0), -__nv_log(x));
  }
  if (x < 1.5) {
    const double t = 2.0 * (x - 1.0);
    double p = 0x1.e82f36a9ebf04p-34;
    p = tessera_fma(p, t, -0x1.f6405ef75d2b1p-33);
    p = tessera_fma(p, t, -0x1.acb279e17b7e0p-32);
    p = tessera_fma(p, t, 0x1.b81f84611c906p-31);
    p = tessera_fma(p, t, 0x1.77744825c419ep-30);
    p = tessera_fma(p, t, -0x1.8294b8e5e9aa7p-29);
    p = tessera_fma(p, t, -0x1.0f0f6d96fd300p-31);
    p = tessera_fma(p, t, 0x1.0e011df6ae5bbp-30);
    p = tessera_fma(p, t, 0x1.d251f84c36305p-28);
    p = tessera_fma(p, t, -0x1.e506d33bd679dp-27);
    p = tessera_fma(p, t, 0x1.674bb4d550f6fp-26);
    p = tessera_fma(p, t, -0x1.7942ece73c73dp-25);
    p = tessera_fma(p, t, 0x1.a6a7503c96c34p-24);
    p = tessera_fma(p, t, -0x1.bd648708bd760p-23);
    p = tessera_fma(p, t, 0x1.d377fa514b946p-22);
    p = tessera_fma(p, t, -0x1.efc2e5b3a1a9ep-21);
    p = tessera_fma(p, t, 0x1.07ffb45913e6cp-19);
    p = tessera_fma(p, t, -0x1.1a2b63e6a3878p-18);
    p = tessera_fma(p, t, 0x1.2f049efec167ap-17);
    p = tessera_fma(p, t, -0x1.473656c6714d6p-16);
    p = tessera_fma(p, t, 0x1.639f39e0fd2a2p-15);
    p = tessera_fma(p, t, -0x1.85792e0a5a32ep-14);
    p = tessera_fma(p, t, 0x1.ae8a99e44744dp-13);
    p = tessera_fma(p, t, -0x1.e18246ed52047p-12);
    p = tessera_fma(p, t, 0x1.115549e61c7dfp-10);
    p = tessera_fma(p, t, -0x1.3cb1f9d3c5175p-9);
    p = tessera_fma(p, t, 0x1.79cf9c4c59e70p-8);
    p = tessera_fma(p, t, -0x1.d7a3e6a8f2307p-7);
    p = tessera_fma(p, t, 0x1.3e54520481ec5p-5);
    p = tessera_fma(p, t, -0x1.f6465978d46e9p-4);
    p = tessera_fma(p, t, 0x1.2788cfc6fb619p-1);
    return p * (x - 1.0) * (x - 2.0);
  }
  if (x <= 3.0) {
    const double t = (x - 2.25) / 0.75;
    double p = 0x1.1efb5040e9c0ap-43;
    p = tessera_fma(p, t, -0x1.be221b2dbe136p-42);
    p = tessera_fma(p, t, 0x1.ec24e7c8acdc7p-42);
    p = tessera_fma(p, t, -0x1.8191a6e077db4p-40);
    p = tessera_fma(p, t, 0x1.c8ce3eafe96b3p-38);
    p = tessera_fma(p, t, -0x1.65e8a838bd961p-36);
    p = tessera_fma(p, t, 0x1.09acbb03b1560p-34);
    p = tessera_fma(p, t, -0x1.a26b507a875e0p-33);
    p = tessera_fma(p, t, 0x1.4c4bbede17ecdp-31);
    p = tessera_fma(p, t, -0x1.071628f8d78d9p-29);
    p = tessera_fma(p, t, 0x1.a1c9bc6be7b47p-28);
    p = tessera_fma(p, t, -0x1.4d1cb388d963ep-26);
    p = tessera_fma(p, t, 0x1.0ac2647c7e109p-24);
    p = tessera_fma(p, t, -0x1.ad6c0589d3726p-23);
    p = tessera_fma(p, t, 0x1.5bbdbd2fc2404p-21);
    p = tessera_fma(p, t, -0x1.1bae1161fd628p-19);
    p = tessera_fma(p, t, 0x1.d3161b3cbaed2p-18);
    p = tessera_fma(p, t, -0x1.85051a51fc304p-16);
    p = tessera_fma(p, t, 0x1.48f2d01efb06ap-14);
    p = tessera_fma(p, t, -0x1.1be9fa46b7c43p-12);
    p = tessera_fma(p, t, 0x1.f87c2efbec776p-11);
    p = tessera_fma(p, t, -0x1.d406d784a021bp-9);
    p = tessera_fma(p, t, 0x1.d1bf0ebc84adbp-7);
    p = tessera_fma(p, t, -0x1.07d3725b066f1p-4);
    p = tessera_fma(p, t, 0x1.992dfc9539d9bp-2);
    return p * (x - 1.0) * (x - 2.0);
  }
  if (x > 0x1p1015) return tessera_infinity();
  tessera_dd shift = {1.0, 0.0};
  tessera_dd at = {x, 0.0};
  while (at.hi < 12.0) {
    shift = tessera_dd_mul(shift, at);
    at = tessera_dd_add(at, {1.0, 0.0});
  }
  tessera_dd l = tessera_stirling(at.hi);
  const tessera_dd s = tessera_log_dd(shift.hi);
  l.lo += at.lo * __nv_log(at.hi) - shift.lo / shift.hi;
  l = tessera_dd_add(l, {-s.hi, -s.lo});
  return l.hi + l.lo;
}

extern "C" {
__device__ __inline__ double __nv_erfcx(double a) {
  if (a >= 0.0) return tessera_erfcx_positive(a);
  if (a != a) return a;
  if (a < -27.0) return tessera_infinity();
  const tessera_dd square = tessera_product(a, a);
  int k;
  const tessera_dd e = tessera_exp_parts(square, &k);
  return 2.0 * tessera_scale(e.hi + e.lo, k) - tessera_erfcx_positive(-a);
}
__device__ __inline__ double __nv_erf(double a) {
  if (a == 0.0) return a;
  const double x = tessera_abs(a);
  if (x < 0.75) {
    const double z = a * a;
    double p = -0x1.3676fc48c133cp-71;
    p = tessera_fma(p, z, 0x1.ab5cc31489f29p-67);
    p = tessera_fma(p, z, -0x1.18cc8a061c479p-62);
    p = tessera_fma(p, z, 0x1.5f7919bc67b8cp-58);
    p = tessera_fma(p, z, -0x1.a2007af3447f6p-54);
    p = tessera_fma(p, z, 0x1.d70b3537f4765p-50);
    p = tessera_fma(p, z, -0x1.f56f071a885cfp-46);
    p = tessera_fma(p, z, 0x1.f683ae4a97007p-42);
    p = tessera_fma(p, z, -0x1.d8453cb0c46eap-38);
    p = tessera_fma(p, z, 0x1.9e6ad5e55a730p-34);
    p = tessera_fma(p, z, -0x1.51d7181c5d36dp-30);
    p = tessera_fma(p, z, 0x1.fcc5720624c1cp-27);
    p = tessera_fma(p, z, -0x1.5f742ec43e71ap-23);
    p = tessera_fma(p, z, 0x1.b9e6c9dc651a3p-20);
    p = tessera_fma(p, z, -0x1.f4d25c3e0c2ebp-17);
    p = tessera_fma(p, z, 0x1.f9a326f9b89b7p-14);
    p = tessera_fma(p, z, -0x1.c02db40040b86p-11);
    p = tessera_fma(p, z, 0x1.565bcd0e6a53fp-8);
    p = tessera_fma(p, z, -0x1.b82ce31288b51p-6);
    p = tessera_fma(p, z, 0x1.ce2f21a042be2p-4);
    p = tessera_fma(p, z, -0x1.812746b0379e7p-2);
    const double first = tessera_mul(a, 0x1.20dd750429b6dp+0);
    const double rest = tessera_fma(a, 0x1.20dd750429b6dp+0, -first) + a * 0x1.1ae3a914fed80p-56;
    return tessera_add(first, tessera_fma(a * z, p, rest));
  }
  if (x != x) return a;
  return tessera_copysign(1.0 - tessera_erfc_positive(x), a);
}
__device__ __inline__ double __nv_erfc(double a) {
  if (a != a) return a;
  if (a > 0.5) return tessera_erfc_positive(a);
  if (a > -0.75) return 1.0 - __nv_erf(a);
  return 2.0 - tessera_erfc_positive(-a);
}
__device__ __inline__ double __nv_normcdf(double a) {
  /* erfc(-a / sqrt(2)) / 2; the rounding error of the quotient changes the exponential. */
  if (a != a) return a;
  if (a < -39.5) return 0.0;
  if (a > 39.5) return 1.0;
  tessera_dd x = tessera_product(-a, 0x1.6a09e667f3bcdp-1);
  x = tessera_fast_sum(x.hi, tessera_fma(-a, -0x1.bdd3413b26456p-55, x.lo));
  const double slope = 0x1.20dd750429b6dp+0 * __nv_exp(-x.hi * x.hi);
  return 0.5 * (__nv_erfc(x.hi) - slope * x.lo);
}
/* Inverses: a first value from logarithms, then steps of Halley's method. */
__device__ __inline__ double __nv_erfcinv(double a) {
  if (!(a >= 0.0 && a <= 2.0)) return tessera_nan();
  if (a == 0.0) return tessera_infinity();
  if (a == 2.0) return -tessera_infinity();
  const bool upper = a > 1.0;
  const double c = upper ? 2.0 - a : a;
  /* Winitzki's formula in l = log(1 - erf(x)^2) */
  const double l = __nv_log(c) + __nv_log(2.0 - c);
  const double h = 0x1.152af46b7c65ep+2 + 0.5 * l;
  double x = __builtin_sqrt(__builtin_sqrt(tessera_abs(h * h - l / 0.147)) - h);
  if (!(x > 0.0)) x = 0.0;
  for (int i = 0; i < 4; i++) {
    double residual;
    if (x < 0.5) residual = (1.0 - c) - __nv_erf(x);
    else residual = tessera_erfc_positive(x) - c;
    const double u = residual * 0x1.c5bf891b4ef6bp-1 * __nv_exp(x * x);
    x += u / (1.0 - x * u);
  }
  return upper ? -x : x;
}
__device__ __inline__ double __nv_erfinv(double a) {
  const double x = tessera_abs(a);
  if (!(x <= 1.0)) return tessera_nan();
  if (x > 0.5) return tessera_copysign(__nv_erfcinv(1.0 - x), a);
  if (x < 0x1p-28) return a * 0x1.c5bf891b4ef6bp-1;
  double y = x * (0.88622692545275801365 + 0.2320136665 * x * x);
  for (int i = 0; i < 3; i++) {
    const double u = (x - __nv_erf(y)) * 0x1.c5bf891b4ef6bp-1 * __nv_exp(y * y);
    y += u / (1.0 - y * u);
  }
  return tessera_copysign(y, a);
}
__device__ __inline__ double __nv_normcdfinv(double a) {
  return -0x1.6a09e667f3bcdp+0 * __nv_erfcinv(2.0 * a);
}
__device__ __inline__ double __nv_tgamma(double a) {
  if (a != a || a == tessera_infinity()) return a;
  if (a == 0.0) return tessera_copysign(tessera_infinity(), a);
  if (a > 172.0) return tessera_infinity();
  if (tessera_abs(a) < 0x1p-54) return 1.0 / a;
  if (a > 0.0) return tessera_gamma_positive(a);
  if (tessera_rint(a) == a) return tessera_nan();
  const double s = __nv_sinpi(a);
  if (a < -184.0) return tessera_copysign(0.0, s);
  /* gamma(a) gamma(1 - a) = pi / sin(pi a); gamma(1 - a) may overflow where gamma(a) is not 0 */
  double rest = 1.0, b = -a;
  while (b > 140.0) {
    b -= 1.0;
    rest *= b / 32.0;
  }
  const double steps = -a - b;
  return tessera_scale(0x1.921fb54442d18p+1 / (a * -s * tessera_gamma_positive(b)) / rest, -5 * (int)steps);
}
__device__ __inline__ double __nv_lgamma(double a) {
  if (a != a) return a;
  if (!tessera_is_finite(a) || a == 0.0) return tessera_infinity();
  if (a > 0.0) return tessera_lgamma_positive(a) + 0.0; /* not -0 */
  if (tessera_rint(a) == a) return tessera_infinity();
  if (a > -0x1p-60) return -__nv_log(-a);
  const tessera_dd l = tessera_log_dd(tessera_abs(a * __nv_sinpi(a)));
  return (0x1.250d048e7a1bdp+0 - l.hi) - l.lo - tessera_lgamma_positive(-a);
}
}

#endif
