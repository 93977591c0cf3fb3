/* Complex numbers of CUDA's C interface: float2 and double2. */
#ifndef TESSERA_CUCOMPLEX_H
#define TESSERA_CUCOMPLEX_H

#include "vector_functions.h"
#include <math.h>

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define TESSERA_COMPLEX static __inline__ __host__ __device__
/* Division is R. L. Smith's (Algorithm 116: Complex division, Communications of the ACM 5(8), 1962,
 * p. 435): the quotient of the divisor's parts is at most 1, so that no square overflows. */
#define TESSERA_COMPLEX_FUNCTIONS(type, real, make, s, magnitude, distance)                       \
  TESSERA_COMPLEX real cuCreal##s(type a) { return a.x; }                                         \
  TESSERA_COMPLEX real cuCimag##s(type a) { return a.y; }                                         \
  TESSERA_COMPLEX type cuConj##s(type a) { return make(a.x, -a.y); }                              \
  TESSERA_COMPLEX type cuCadd##s(type a, type b) { return make(a.x + b.x, a.y + b.y); }           \
  TESSERA_COMPLEX type cuCsub##s(type a, type b) { return make(a.x - b.x, a.y - b.y); }           \
  TESSERA_COMPLEX type cuCmul##s(type a, type b) {                                                \
    return make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                                    \
  }                                                                                               \
  TESSERA_COMPLEX type cuCdiv##s(type a, type b) {                                                \
    if (magnitude(b.x) >= magnitude(b.y)) {                                                       \
      const real quotient = b.y / b.x, divisor = b.x + b.y * quotient;                            \
      return make((a.x + a.y * quotient) / divisor, (a.y - a.x * quotient) / divisor);            \
    }                                                                                             \
    const real quotient = b.x / b.y, divisor = b.x * quotient + b.y;                              \
    return make((a.x * quotient + a.y) / divisor, (a.y * quotient - a.x) / divisor);              \
  }                                                                                               \
  TESSERA_COMPLEX real cuCabs##s(type a) { return distance(a.x, a.y); }                           \
  TESSERA_COMPLEX type cuCfma##s(type a, type b, type c) {                                        \
    return cuCadd##s(cuCmul##s(a, b), c);                                                         \
  }
TESSERA_COMPLEX cuFloatComplex make_cuFloatComplex(float x, float y) { return make_float2(x, y); }
TESSERA_COMPLEX cuDoubleComplex make_cuDoubleComplex(double x, double y) {
  return make_double2(x, y);
}
TESSERA_COMPLEX cuComplex make_cuComplex(float x, float y) { return make_float2(x, y); }
TESSERA_COMPLEX_FUNCTIONS(cuFloatComplex, float, make_cuFloatComplex, f, fabsf, hypotf)
TESSERA_COMPLEX_FUNCTIONS(cuDoubleComplex, double, make_cuDoubleComplex, , fabs, hypot)
TESSERA_COMPLEX cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) {
  return make_cuDoubleComplex(a.x, a.y);
}
TESSERA_COMPLEX cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
  return make_cuFloatComplex((float)a.x, (float)a.y);
}
#undef TESSERA_COMPLEX_FUNCTIONS
#undef TESSERA_COMPLEX

#endif
