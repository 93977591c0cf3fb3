/* Complex numbers of CUDA's C interface: float2 and double2. */
#ifndef TESSERA_CUCOMPLEX_H
#define TESSERA_CUCOMPLEX_H

#include "vector_functions.h"
#include <math.h>

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define TESSERA_COMPLEX static __inline__ __host__ __device__
/* Division and absolute value scale by the larger part, so that no square overflows. */
#define TESSERA_COMPLEX_FUNCTIONS(type, real, make, s, absolute, root)                            \
  TESSERA_COMPLEX real cuCreal##s(type a) { return a.x; }                                         \
  TESSERA_COMPLEX real cuCimag##s(type a) { return a.y; }                                         \
  TESSERA_COMPLEX type cuConj##s(type a) { return make(a.x, -a.y); }                              \
  TESSERA_COMPLEX type cuCadd##s(type a, type b) { return make(a.x + b.x, a.y + b.y); }           \
  TESSERA_COMPLEX type cuCsub##s(type a, type b) { return make(a.x - b.x, a.y - b.y); }           \
  TESSERA_COMPLEX type cuCmul##s(type a, type b) {                                                \
    return make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                                    \
  }                                                                                               \
  TESSERA_COMPLEX type cuCdiv##s(type a, type b) {                                                \
    const real scale = 1 / (absolute(b.x) + absolute(b.y));                                       \
    const real c = a.x * scale, d = a.y * scale, e = b.x * scale, f = b.y * scale;                \
    const real inverse = 1 / (e * e + f * f);                                                     \
    return make((c * e + d * f) * inverse, (d * e - c * f) * inverse);                            \
  }                                                                                               \
  TESSERA_COMPLEX real cuCabs##s(type a) {                                                        \
    const real x = absolute(a.x), y = absolute(a.y);                                              \
    const real larger = x > y ? x : y, smaller = x > y ? y : x;                                   \
    if (larger == 0 || larger - larger != 0) return x + y;                                        \
    const real t = smaller / larger;                                                              \
    return larger * root(1 + t * t);                                                              \
  }                                                                                               \
  TESSERA_COMPLEX type cuCfma##s(type a, type b, type c) {                                        \
    return cuCadd##s(cuCmul##s(a, b), c);                                                         \
  }
TESSERA_COMPLEX cuFloatComplex make_cuFloatComplex(float x, float y) { return make_float2(x, y); }
TESSERA_COMPLEX cuDoubleComplex make_cuDoubleComplex(double x, double y) {
  return make_double2(x, y);
}
TESSERA_COMPLEX cuComplex make_cuComplex(float x, float y) { return make_float2(x, y); }
TESSERA_COMPLEX_FUNCTIONS(cuFloatComplex, float, make_cuFloatComplex, f, fabsf, sqrtf)
TESSERA_COMPLEX_FUNCTIONS(cuDoubleComplex, double, make_cuDoubleComplex, , fabs, sqrt)
TESSERA_COMPLEX cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) {
  return make_cuDoubleComplex(a.x, a.y);
}
TESSERA_COMPLEX cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
  return make_cuFloatComplex((float)a.x, (float)a.y);
}
#undef TESSERA_COMPLEX_FUNCTIONS
#undef TESSERA_COMPLEX

#endif
