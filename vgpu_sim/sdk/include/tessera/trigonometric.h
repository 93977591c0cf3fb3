/* Trigonometric functions in double precision. */
#ifndef TESSERA_TRIGONOMETRIC_H
#define TESSERA_TRIGONOMETRIC_H

#include "double_double.h"

/* The bits of 2 / pi behind the point; the zeros before them serve small exponents. */
static __constant__ const unsigned long long tessera_two_over_pi[] = {
    0x0000000000000000ull, 0x0000000000000000ull,
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull,
    0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull,
    0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull,
    0x56033046fc7b6babull, 0xf0cfbc209af4361dull,
};

/* Reduces a large x to the quadrant and the angle in [-pi/4, pi/4]; every bit of x counts. */
TESSERA_F tessera_dd tessera_reduce_large(double x, int *quadrant) {
  const unsigned long long bits = __nv_double_as_longlong(x);
  const int exponent = (int)(bits >> 52 & 0x7ff) - 1075;
  const unsigned long long m = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
  /* Of the product m * 2^exponent * (2 / pi), what counts is below 4: 192 bits from bit `at`. */
  const int at = exponent - 2 + 128;
  const int word = at >> 6, shift = at & 63;
  unsigned long long g[3];
  for (int i = 0; i < 3; i++) {
    const unsigned long long high = tessera_two_over_pi[word + i];
    const unsigned long long low = tessera_two_over_pi[word + i + 1];
    g[i] = shift ? high << shift | low >> (64 - shift) : high;
  }
  unsigned long long lo = m * g[2];
  unsigned long long mid = __nv_umul64hi(m, g[2]) + m * g[1];
  unsigned long long hi = __nv_umul64hi(m, g[1]) + m * g[0] + (mid < m * g[1]);
  int q = (int)(hi >> 62);
  unsigned long long f2 = hi << 2 | mid >> 62, f1 = mid << 2 | lo >> 62;
  const bool negative = f2 >> 63;
  if (negative) { /* closer to the next quadrant */
    q++;
    f1 = ~f1;
    f2 = ~f2;
  }
  const int zeros = f2 ? __nv_clzll((long long)f2) : 64 + (f1 ? __nv_clzll((long long)f1) : 63);
  if (zeros >= 64) {
    f2 = f1 << (zeros - 64);
    f1 = 0;
  } else if (zeros > 0) {
    f2 = f2 << zeros | f1 >> (64 - zeros);
    f1 <<= zeros;
  }
  /* f2:f1 is the fraction times 2^(128 + zeros) */
  const double scale = tessera_bits((unsigned long long)(1023 - 64 - zeros) << 52);
  const double top = (double)(f2 & ~0x7ffull) * scale;
  const double rest = ((double)(f2 & 0x7ff) + (double)f1 * 0x1p-64) * scale;
  tessera_dd r = tessera_dd_mul(tessera_fast_sum(top, rest), {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54});
  if (negative != (bool)(bits >> 63)) r = {-r.hi, -r.lo};
  *quadrant = (bits >> 63 ? -q : q) & 3;
  return r;
}

TESSERA_F tessera_dd tessera_reduce(double x, int *quadrant) {
  if (tessera_abs(x) > 0x1p20) return tessera_reduce_large(x, quadrant);
  const double n = tessera_rint(x * 0x1.45f306dc9c883p-1);
  *quadrant = (int)n & 3;
  const double first = tessera_fma(-n, 0x1.921fb54400000p+0, x);
  const tessera_dd p = tessera_product(n, 0x1.0b4611a626331p-34);
  const tessera_dd r = tessera_sum(first, -p.hi);
  return tessera_fast_sum(r.hi, tessera_sub(tessera_sub(r.lo, p.lo), n * 0x1.1701b839a2520p-88));
}

TESSERA_F double tessera_sin_kernel(tessera_dd r) {
  const double z = r.hi * r.hi;
  double p = -0x1.2f49b46814157p-57;
  p = tessera_fma(p, z, 0x1.952c77030ad4ap-49);
  p = tessera_fma(p, z, -0x1.ae7f3e733b81fp-41);
  p = tessera_fma(p, z, 0x1.6124613a86d09p-33);
  p = tessera_fma(p, z, -0x1.ae64567f544e4p-26);
  p = tessera_fma(p, z, 0x1.71de3a556c734p-19);
  p = tessera_fma(p, z, -0x1.a01a01a01a01ap-13);
  p = tessera_fma(p, z, 0x1.1111111111111p-7);
  p = tessera_fma(p, z, -0x1.5555555555555p-3);
  return tessera_add(r.hi, tessera_fma(r.hi * z, p, tessera_fma(-0.5 * z, r.lo, r.lo)));
}

/* Taylor's polynomial. Its first two terms, 1 - r^2 / 2, are summed as two doubles. */
TESSERA_F double tessera_cos_kernel(tessera_dd r) {
  const tessera_dd square = tessera_product(r.hi, r.hi);
  const tessera_dd start = tessera_fast_sum(1.0, -0.5 * square.hi);
  const double z = square.hi, below = tessera_fma(r.hi, r.lo, 0.5 * square.lo);
  double p = 0x1.e542ba4020225p-62;
  p = tessera_fma(p, z, -0x1.6827863b97d97p-53);
  p = tessera_fma(p, z, 0x1.ae7f3e733b81fp-45);
  p = tessera_fma(p, z, -0x1.93974a8c07c9dp-37);
  p = tessera_fma(p, z, 0x1.1eed8eff8d898p-29);
  p = tessera_fma(p, z, -0x1.27e4fb7789f5cp-22);
  p = tessera_fma(p, z, 0x1.a01a01a01a01ap-16);
  p = tessera_fma(p, z, -0x1.6c16c16c16c17p-10);
  p = tessera_fma(p, z, 0x1.5555555555555p-5);
  return tessera_add(start.hi, tessera_add(start.lo, tessera_fma(z * z, p, -below)));
}

TESSERA_F double tessera_sin_of(tessera_dd r, int quadrant) {
  const double v = quadrant & 1 ? tessera_cos_kernel(r) : tessera_sin_kernel(r);
  return quadrant & 2 ? -v : v;
}

/* Reduces an argument in units of pi, exactly. */
TESSERA_F tessera_dd tessera_reduce_pi(double x, int *quadrant) {
  if (tessera_abs(x) >= 0x1p53) x = 0.0;
  const double n = tessera_rint(2.0 * x);
  *quadrant = (int)((long long)n & 3);
  const double rest = tessera_fma(-0.5, n, x);
  tessera_dd r = tessera_product(rest, 0x1.921fb54442d18p+1);
  r.lo = tessera_fma(rest, 0x1.1a62633145c07p-53, r.lo);
  return tessera_fast_sum(r.hi, r.lo);
}

/* Returns atan(y / x) for 0 <= y <= x, x > 0, with about 60 bits. */
TESSERA_F tessera_dd tessera_atan_parts(tessera_dd y, tessera_dd x) {
  static __constant__ const double table[9][2] = {
      {0.0, 0.0},
      {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
      {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
      {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
      {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
      {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
      {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
      {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
      {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
  };
  const int i = (int)(y.hi / x.hi * 8.0 + 0.5);
  const double c = i * 0.125;
  /* atan(y / x) = atan(c) + atan((y - c x) / (x + c y)) */
  const tessera_dd t = tessera_dd_div(tessera_dd_add(y, {-c * x.hi, -c * x.lo}),
                                      tessera_dd_add(x, {c * y.hi, c * y.lo}));
  const double z = t.hi * t.hi;
  double p = 0x1.e1e1e1e1e1e1ep-5;
  p = tessera_fma(p, z, -0x1.1111111111111p-4);
  p = tessera_fma(p, z, 0x1.3b13b13b13b14p-4);
  p = tessera_fma(p, z, -0x1.745d1745d1746p-4);
  p = tessera_fma(p, z, 0x1.c71c71c71c71cp-4);
  p = tessera_fma(p, z, -0x1.2492492492492p-3);
  p = tessera_fma(p, z, 0x1.999999999999ap-3);
  p = tessera_fma(p, z, -0x1.5555555555555p-2);
  const tessera_dd small = tessera_fast_sum(t.hi, tessera_fma(t.hi * z, p, t.lo));
  return tessera_dd_add({table[i][0], table[i][1]}, small);
}

/* Returns atan2(y, x) of two positive sums. */
TESSERA_F tessera_dd tessera_atan2_dd(tessera_dd y, tessera_dd x) {
  if (y.hi <= x.hi) return tessera_atan_parts(y, x);
  const tessera_dd r = tessera_atan_parts(x, y);
  return tessera_dd_add({0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}, {-r.hi, -r.lo});
}

extern "C" {
__device__ __inline__ double __nv_sin(double a) {
  if (!tessera_is_finite(a)) return tessera_nan();
  if (tessera_abs(a) < 0x1p-27) return a;
  int q;
  const tessera_dd r = tessera_reduce(a, &q);
  return tessera_sin_of(r, q);
}
__device__ __inline__ double __nv_cos(double a) {
  if (!tessera_is_finite(a)) return tessera_nan();
  int q;
  const tessera_dd r = tessera_reduce(a, &q);
  return tessera_sin_of(r, q + 1);
}
__device__ __inline__ void __nv_sincos(double a, double *s, double *c) {
  if (!tessera_is_finite(a)) {
    *s = *c = tessera_nan();
    return;
  }
  int q;
  const tessera_dd r = tessera_reduce(a, &q);
  *s = a == 0.0 ? a : tessera_sin_of(r, q);
  *c = tessera_sin_of(r, q + 1);
}
__device__ __inline__ double __nv_tan(double a) {
  if (!tessera_is_finite(a)) return tessera_nan();
  if (tessera_abs(a) < 0x1p-27) return a;
  int q;
  const tessera_dd r = tessera_reduce(a, &q);
  return tessera_sin_of(r, q) / tessera_sin_of(r, q + 1);
}
__device__ __inline__ double __nv_sinpi(double a) {
  if (!tessera_is_finite(a)) return tessera_nan();
  if (tessera_rint(a) == a) return tessera_copysign(0.0, a);
  int q;
  const tessera_dd r = tessera_reduce_pi(a, &q);
  return tessera_sin_of(r, q);
}
__device__ __inline__ double __nv_cospi(double a) {
  if (!tessera_is_finite(a)) return tessera_nan();
  int q;
  const tessera_dd r = tessera_reduce_pi(a, &q);
  return r.hi == 0.0 && (q & 1) ? 0.0 : tessera_sin_of(r, q + 1);
}
__device__ __inline__ void __nv_sincospi(double a, double *s, double *c) {
  *s = __nv_sinpi(a);
  *c = __nv_cospi(a);
}
__device__ __inline__ double __nv_atan2(double y, double x) {
  if (x != x || y != y) return x + y;
  double b = tessera_abs(x), a = tessera_abs(y);
  tessera_dd r = {0.0, 0.0};
  if (!tessera_is_finite(a) || !tessera_is_finite(b)) { /* only the directions count */
    const bool first = !tessera_is_finite(a), second = !tessera_is_finite(b);
    a = first;
    b = second;
  }
  const int scale = a > 0x1p500 || b > 0x1p500 ? -520 : a < 0x1p-500 && b < 0x1p-500 ? 560 : 0;
  if (scale) {
    const double factor = scale > 0 ? 0x1p560 : 0x1p-520;
    const double small = a * factor;
    if (scale < 0 && !__builtin_signbit(x) && small < 0x1p-900 && a / b < 0x1p-960) {
      return tessera_copysign(a / b, y);
    }
    a = small;
    b *= factor;
  }
  if (a != 0.0) {
    if (!__builtin_signbit(x) && a < b * 0x1p-60) return tessera_copysign(a / b, y);
    r = b == 0.0 ? tessera_dd{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54} : tessera_atan2_dd({a, 0.0}, {b, 0.0});
  }
  if (__builtin_signbit(x)) r = tessera_dd_add({0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53}, {-r.hi, -r.lo});
  return tessera_copysign(r.hi + r.lo, y);
}
__device__ __inline__ double __nv_atan(double a) { return __nv_atan2(a, 1.0); }
__device__ __inline__ double __nv_asin(double a) {
  const double x = tessera_abs(a);
  if (!(x <= 1.0)) return tessera_nan();
  if (x < 0x1p-27) return a;
  const double square = tessera_fma(-x, x, 1.0);
  const double root = __builtin_sqrt(square);
  if (root == 0.0) return tessera_copysign(0x1.921fb54442d18p+0, a);
  /* The root of (1 - x)(1 + x) with two doubles. */
  const tessera_dd product = tessera_dd_mul(tessera_sum(1.0, -x), tessera_sum(1.0, x));
  const double exact = __builtin_sqrt(product.hi);
  const double rest = (tessera_fma(-exact, exact, product.hi) + product.lo) / (2.0 * exact);
  const tessera_dd r = tessera_atan2_dd({x, 0.0}, tessera_fast_sum(exact, rest));
  return tessera_copysign(r.hi + r.lo, a);
}
__device__ __inline__ double __nv_acos(double a) {
  if (!(tessera_abs(a) <= 1.0)) return tessera_nan();
  if (a == 1.0) return 0.0;
  const tessera_dd product = tessera_dd_mul(tessera_sum(1.0, -a), tessera_sum(1.0, a));
  double root = 0.0, rest = 0.0;
  if (product.hi > 0.0) {
    root = __builtin_sqrt(product.hi);
    rest = (tessera_fma(-root, root, product.hi) + product.lo) / (2.0 * root);
  }
  const double x = tessera_abs(a);
  tessera_dd r = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  if (x > 0.0) {
    r = root == 0.0 ? tessera_dd{0.0, 0.0} : tessera_atan2_dd(tessera_fast_sum(root, rest), {x, 0.0});
  }
  if (a < 0.0) r = tessera_dd_add({0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53}, {-r.hi, -r.lo});
  return r.hi + r.lo;
}
}

#endif
