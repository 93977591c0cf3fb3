/* min and max of two numbers, for host and device, as CUDA's mathematical functions have them. clang's
 * headers define those of two int for the device, to which other numbers would be converted. */
#ifndef TESSERA_EXTREMES_H
#define TESSERA_EXTREMES_H

#define TESSERA_ORDERED(side, result, one, other)             \
  static inline side result max(one a, other b) {             \
    return (result)a < (result)b ? (result)b : (result)a;     \
  }                                                           \
  static inline side result min(one a, other b) {             \
    return (result)b < (result)a ? (result)b : (result)a;     \
  }
/* If one is not a number, the result is the other. */
#define TESSERA_FLOATING(side, result, one, other, suffix)                                      \
  static inline side result max(one a, other b) { return __builtin_fmax##suffix(a, b); }        \
  static inline side result min(one a, other b) { return __builtin_fmin##suffix(a, b); }
#define TESSERA_EXTREMES(side)                                                        \
  TESSERA_ORDERED(side, unsigned int, unsigned int, unsigned int)                     \
  TESSERA_ORDERED(side, unsigned int, int, unsigned int)                              \
  TESSERA_ORDERED(side, unsigned int, unsigned int, int)                              \
  TESSERA_ORDERED(side, long, long, long)                                             \
  TESSERA_ORDERED(side, unsigned long, unsigned long, unsigned long)                  \
  TESSERA_ORDERED(side, unsigned long, long, unsigned long)                           \
  TESSERA_ORDERED(side, unsigned long, unsigned long, long)                           \
  TESSERA_ORDERED(side, long long, long long, long long)                              \
  TESSERA_ORDERED(side, unsigned long long, unsigned long long, unsigned long long)   \
  TESSERA_ORDERED(side, unsigned long long, long long, unsigned long long)            \
  TESSERA_ORDERED(side, unsigned long long, unsigned long long, long long)            \
  TESSERA_FLOATING(side, float, float, float, f)                                      \
  TESSERA_FLOATING(side, double, double, double, )                                    \
  TESSERA_FLOATING(side, double, float, double, )                                     \
  TESSERA_FLOATING(side, double, double, float, )

TESSERA_ORDERED(__host__, int, int, int)
TESSERA_EXTREMES(__host__)
TESSERA_EXTREMES(__device__)

#undef TESSERA_EXTREMES
#undef TESSERA_FLOATING
#undef TESSERA_ORDERED

#endif
