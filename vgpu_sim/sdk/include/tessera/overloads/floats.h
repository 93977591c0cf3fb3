/* Overloads for floats that clang's header declares in device code and defines nowhere: it expects
 * them of NVIDIA's headers. */
#ifndef TESSERA_OVERLOADS_FLOATS_H
#define TESSERA_OVERLOADS_FLOATS_H

#define TESSERA_D static __inline__ __attribute__((always_inline, device))
#define TESSERA_ONE(name) \
  TESSERA_D float name(float a) { return ::name##f(a); }
#define TESSERA_TWO(name) \
  TESSERA_D float name(float a, float b) { return ::name##f(a, b); }
#define TESSERA_INTEGER(type, name) \
  TESSERA_D type name(float a) { return ::name##f(a); }
TESSERA_ONE(acosh)
TESSERA_ONE(asinh)
TESSERA_ONE(atanh)
TESSERA_ONE(cbrt)
TESSERA_ONE(erf)
TESSERA_ONE(erfc)
TESSERA_ONE(exp2)
TESSERA_ONE(expm1)
TESSERA_ONE(lgamma)
TESSERA_ONE(log1p)
TESSERA_ONE(log2)
TESSERA_ONE(logb)
TESSERA_ONE(nearbyint)
TESSERA_ONE(rint)
TESSERA_ONE(round)
TESSERA_ONE(tgamma)
TESSERA_ONE(trunc)
TESSERA_TWO(copysign)
TESSERA_TWO(fdim)
TESSERA_TWO(fmax)
TESSERA_TWO(fmin)
TESSERA_TWO(hypot)
TESSERA_TWO(nextafter)
TESSERA_TWO(remainder)
TESSERA_INTEGER(int, ilogb)
TESSERA_INTEGER(long, lrint)
TESSERA_INTEGER(long, lround)
TESSERA_INTEGER(long long, llrint)
TESSERA_INTEGER(long long, llround)
TESSERA_D float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
TESSERA_D float remquo(float a, float b, int *quotient) { return ::remquof(a, b, quotient); }
TESSERA_D float scalbn(float a, int n) { return ::scalbnf(a, n); }
TESSERA_D float scalbln(float a, long n) { return ::scalblnf(a, n); }

/* Not even declared there. nvcc has the first on both sides. */
static __inline__ __attribute__((always_inline, host, device)) void sincos(float a, float *s, float *c) {
  ::sincosf(a, s, c);
}
TESSERA_D void sincospi(float a, float *s, float *c) { ::sincospif(a, s, c); }

#undef TESSERA_D
#undef TESSERA_ONE
#undef TESSERA_TWO
#undef TESSERA_INTEGER

#endif
