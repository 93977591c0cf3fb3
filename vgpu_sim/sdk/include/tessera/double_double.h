/* Arithmetic with the sum of two doubles, which has about 106 bits. The constants of these headers
 * were computed with 400 bits. */
#ifndef TESSERA_DOUBLE_DOUBLE_H
#define TESSERA_DOUBLE_DOUBLE_H

#define TESSERA_I static __device__ __forceinline__
#define TESSERA_F static __device__ __inline__

struct tessera_dd {
  double hi, lo;
};

TESSERA_I double tessera_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
TESSERA_I double tessera_rint(double a) {
  double r;
  __asm__("cvt.rni.f64.f64 %0, %1;" : "=d"(r) : "d"(a));
  return r;
}
/* Sums and products that the compiler must not contract or reorder. */
TESSERA_I double tessera_add(double a, double b) { return __nv_dadd_rn(a, b); }
TESSERA_I double tessera_sub(double a, double b) { return __nv_dsub_rn(a, b); }
TESSERA_I double tessera_mul(double a, double b) { return __nv_dmul_rn(a, b); }

/* T. J. Dekker, A floating-point technique for extending the available precision, Numerische
 * Mathematik 18, 1971: the sum and its rounding error. Requires |a| >= |b|, or a == 0. */
TESSERA_I tessera_dd tessera_fast_sum(double a, double b) {
  const double s = tessera_add(a, b);
  return {s, tessera_sub(b, tessera_sub(s, a))};
}
/* D. E. Knuth, The Art of Computer Programming, volume 2, section 4.2.2, theorem B: the same for any
 * two numbers. */
TESSERA_I tessera_dd tessera_sum(double a, double b) {
  const double s = tessera_add(a, b), t = tessera_sub(s, a);
  return {s, tessera_add(tessera_sub(a, tessera_sub(s, t)), tessera_sub(b, t))};
}
TESSERA_I tessera_dd tessera_product(double a, double b) {
  const double p = tessera_mul(a, b);
  return {p, tessera_fma(a, b, -p)};
}
TESSERA_I tessera_dd tessera_dd_add(tessera_dd a, tessera_dd b) {
  const tessera_dd s = tessera_sum(a.hi, b.hi), t = tessera_sum(a.lo, b.lo);
  const tessera_dd u = tessera_fast_sum(s.hi, tessera_add(s.lo, t.hi));
  return tessera_fast_sum(u.hi, tessera_add(u.lo, t.lo));
}
TESSERA_I tessera_dd tessera_dd_mul(tessera_dd a, tessera_dd b) {
  const tessera_dd p = tessera_product(a.hi, b.hi);
  return tessera_fast_sum(
      p.hi, tessera_add(p.lo, tessera_fma(a.hi, b.lo, tessera_mul(a.lo, b.hi))));
}
TESSERA_I tessera_dd tessera_dd_div(tessera_dd a, tessera_dd b) {
  const double q = __nv_ddiv_rn(a.hi, b.hi);
  const tessera_dd p = tessera_product(q, b.hi);
  const double rest = tessera_add(
      tessera_add(tessera_sub(tessera_sub(a.hi, p.hi), p.lo), a.lo), -tessera_mul(q, b.lo));
  return tessera_fast_sum(q, __nv_ddiv_rn(rest, b.hi));
}
TESSERA_I double tessera_bits(unsigned long long v) { return __nv_longlong_as_double((long long)v); }
TESSERA_I double tessera_nan() { return tessera_bits(0x7ff8000000000000ull); }
TESSERA_I double tessera_infinity() { return tessera_bits(0x7ff0000000000000ull); }
TESSERA_I double tessera_abs(double a) { return __builtin_fabs(a); }
TESSERA_I double tessera_copysign(double a, double b) { return __builtin_copysign(a, b); }
TESSERA_I bool tessera_is_finite(double a) { return tessera_abs(a) < tessera_infinity(); }
/* Returns a * 2^n, correctly rounded for results that are subnormal as well. */
TESSERA_F double tessera_scale(double a, int n) {
  n = n < -2200 ? -2200 : n > 2200 ? 2200 : n;
  while (n > 1000) {
    a *= 0x1p1000;
    n -= 1000;
  }
  while (n < -1000) {
    if (n > -1060) {  /* one rounding only: keep the last step for a number that is still normal */
      a *= tessera_bits((unsigned long long)(1023 + n + 1000) << 52);
      n = -1000;
      break;
    }
    a *= 0x1p-900;
    n += 900;
  }
  return a * tessera_bits((unsigned long long)(1023 + n) << 52);
}

#endif
