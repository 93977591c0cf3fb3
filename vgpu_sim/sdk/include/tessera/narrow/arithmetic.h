/* The arithmetic that halves and bfloat16 have in common; TESSERA_RAW is the type of a value's bits.
 * floats.h has the meaning of the other names. */

#define TESSERA_BINARY(name, op)                                                                          \
  TESSERA_HD TESSERA_ONE name(TESSERA_ONE a, TESSERA_ONE b) { return TESSERA_ONE((float)a op (float)b); } \
  TESSERA_HD TESSERA_TWO name##2(TESSERA_TWO a, TESSERA_TWO b) { return TESSERA_TWO(name(a.x, b.x), name(a.y, b.y)); }
TESSERA_BINARY(__hadd, +)
TESSERA_BINARY(__hsub, -)
TESSERA_BINARY(__hmul, *)
#undef TESSERA_BINARY
TESSERA_HD TESSERA_ONE __hdiv(TESSERA_ONE a, TESSERA_ONE b) { return TESSERA_ONE((float)a / (float)b); }
TESSERA_HD TESSERA_TWO __h2div(TESSERA_TWO a, TESSERA_TWO b) { return TESSERA_TWO(__hdiv(a.x, b.x), __hdiv(a.y, b.y)); }
TESSERA_HD TESSERA_ONE __hneg(TESSERA_ONE a) { return TESSERA_RAW{(unsigned short)(a.__x ^ 0x8000)}; }
TESSERA_HD TESSERA_TWO __hneg2(TESSERA_TWO a) { return TESSERA_TWO(__hneg(a.x), __hneg(a.y)); }
TESSERA_HD TESSERA_ONE __habs(TESSERA_ONE a) { return TESSERA_RAW{(unsigned short)(a.__x & 0x7fff)}; }
TESSERA_HD TESSERA_TWO __habs2(TESSERA_TWO a) { return TESSERA_TWO(__habs(a.x), __habs(a.y)); }
/* The product of two is exact in double precision; its sum with a third is rounded to odd, so that
 * the second rounding sees every bit (S. Boldo, G. Melquiond, Emulation of a FMA and correctly
 * rounded sums: proved algorithms using rounding to odd, IEEE Trans. Computers 57(4), 2008). */
TESSERA_HD TESSERA_ONE __hfma(TESSERA_ONE a, TESSERA_ONE b, TESSERA_ONE c) {
  const double p = (double)(float)a * (double)(float)b, q = (float)c, s = p + q, v = s - p;
  const double rest = (p - (s - v)) + (q - v);
  unsigned long long bits = __builtin_bit_cast(unsigned long long, s);
  /* The rest of an infinite sum is NaN, which compares false. */
  if ((rest > 0.0 || rest < 0.0) && !(bits & 1)) bits += (rest > 0.0) == (s > 0.0) ? 1 : -1;
  return TESSERA_ONE(__builtin_bit_cast(double, bits));
}
TESSERA_HD TESSERA_TWO __hfma2(TESSERA_TWO a, TESSERA_TWO b, TESSERA_TWO c) {
  return TESSERA_TWO(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
TESSERA_HD TESSERA_ONE __hfma_relu(TESSERA_ONE a, TESSERA_ONE b, TESSERA_ONE c) {
  const TESSERA_ONE r = __hfma(a, b, c);
  return (float)r < 0.0f ? TESSERA_ONE(0.0f) : r;
}
/* Only the forms with u are true for a NaN. */
#define TESSERA_COMPARE(name, condition)                                                                      \
  TESSERA_HD bool name(TESSERA_ONE a, TESSERA_ONE b) {                                                        \
    const float x = (float)a, y = (float)b;                                                                   \
    return condition;                                                                                         \
  }                                                                                                           \
  TESSERA_HD TESSERA_TWO name##2(TESSERA_TWO a, TESSERA_TWO b) {                                              \
    return TESSERA_TWO(TESSERA_ONE(name(a.x, b.x) ? 1.0f : 0.0f), TESSERA_ONE(name(a.y, b.y) ? 1.0f : 0.0f)); \
  }
TESSERA_COMPARE(__heq, x == y)
TESSERA_COMPARE(__hne, x < y || x > y)
TESSERA_COMPARE(__hneu, x != y)
TESSERA_COMPARE(__hlt, x < y)
TESSERA_COMPARE(__hle, x <= y)
TESSERA_COMPARE(__hgt, x > y)
TESSERA_COMPARE(__hge, x >= y)
#undef TESSERA_COMPARE
/* Whether both pairs of elements compare so. */
#define TESSERA_BOTH(name, one) \
  TESSERA_HD bool name(TESSERA_TWO a, TESSERA_TWO b) { return one(a.x, b.x) && one(a.y, b.y); }
TESSERA_BOTH(__hbeq2, __heq)
TESSERA_BOTH(__hbne2, __hne)
TESSERA_BOTH(__hbneu2, __hneu)
TESSERA_BOTH(__hblt2, __hlt)
TESSERA_BOTH(__hble2, __hle)
TESSERA_BOTH(__hbgt2, __hgt)
TESSERA_BOTH(__hbge2, __hge)
#undef TESSERA_BOTH
TESSERA_HD bool __hisnan(TESSERA_ONE a) { return (float)a != (float)a; }
TESSERA_HD int __hisinf(TESSERA_ONE a) { return (float)a == INFINITY ? 1 : (float)a == -INFINITY ? -1 : 0; }
TESSERA_HD TESSERA_ONE __hmax(TESSERA_ONE a, TESSERA_ONE b) { return TESSERA_ONE(fmaxf((float)a, (float)b)); }
TESSERA_HD TESSERA_ONE __hmin(TESSERA_ONE a, TESSERA_ONE b) { return TESSERA_ONE(fminf((float)a, (float)b)); }
TESSERA_HD TESSERA_TWO __hmax2(TESSERA_TWO a, TESSERA_TWO b) { return TESSERA_TWO(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
TESSERA_HD TESSERA_TWO __hmin2(TESSERA_TWO a, TESSERA_TWO b) { return TESSERA_TWO(__hmin(a.x, b.x), __hmin(a.y, b.y)); }

#define TESSERA_OPERATOR(op, function)                                                        \
  TESSERA_HD TESSERA_ONE operator op(TESSERA_ONE a, TESSERA_ONE b) { return function(a, b); } \
  TESSERA_HD TESSERA_ONE &operator op##=(TESSERA_ONE &a, TESSERA_ONE b) { return a = function(a, b); }
TESSERA_OPERATOR(+, __hadd)
TESSERA_OPERATOR(-, __hsub)
TESSERA_OPERATOR(*, __hmul)
TESSERA_OPERATOR(/, __hdiv)
#undef TESSERA_OPERATOR
TESSERA_HD TESSERA_ONE operator-(TESSERA_ONE a) { return __hneg(a); }
TESSERA_HD bool operator==(TESSERA_ONE a, TESSERA_ONE b) { return __heq(a, b); }
TESSERA_HD bool operator!=(TESSERA_ONE a, TESSERA_ONE b) { return __hneu(a, b); }
TESSERA_HD bool operator<(TESSERA_ONE a, TESSERA_ONE b) { return __hlt(a, b); }
TESSERA_HD bool operator<=(TESSERA_ONE a, TESSERA_ONE b) { return __hle(a, b); }
TESSERA_HD bool operator>(TESSERA_ONE a, TESSERA_ONE b) { return __hgt(a, b); }
TESSERA_HD bool operator>=(TESSERA_ONE a, TESSERA_ONE b) { return __hge(a, b); }
TESSERA_HD TESSERA_TWO operator+(TESSERA_TWO a, TESSERA_TWO b) { return __hadd2(a, b); }
TESSERA_HD TESSERA_TWO operator-(TESSERA_TWO a, TESSERA_TWO b) { return __hsub2(a, b); }
TESSERA_HD TESSERA_TWO operator*(TESSERA_TWO a, TESSERA_TWO b) { return __hmul2(a, b); }
TESSERA_HD TESSERA_TWO operator/(TESSERA_TWO a, TESSERA_TWO b) { return __h2div(a, b); }

#if defined(__CUDA__)
#define TESSERA_FUNCTION(name, expression)                                \
  static __device__ __forceinline__ TESSERA_ONE h##name(TESSERA_ONE a) {  \
    const float v = a;                                                    \
    return TESSERA_ONE(expression);                                       \
  }                                                                       \
  static __device__ __forceinline__ TESSERA_TWO h2##name(TESSERA_TWO a) { \
    return TESSERA_TWO(h##name(a.x), h##name(a.y));                       \
  }
TESSERA_FUNCTION(sqrt, sqrtf(v))
TESSERA_FUNCTION(rsqrt, (float)(1.0 / sqrt((double)v)))
TESSERA_FUNCTION(rcp, 1.0f / v)
TESSERA_FUNCTION(exp, expf(v))
TESSERA_FUNCTION(exp2, exp2f(v))
TESSERA_FUNCTION(exp10, exp10f(v))
TESSERA_FUNCTION(log, logf(v))
TESSERA_FUNCTION(log2, log2f(v))
TESSERA_FUNCTION(log10, log10f(v))
TESSERA_FUNCTION(sin, sinf(v))
TESSERA_FUNCTION(cos, cosf(v))
TESSERA_FUNCTION(tanh, tanhf(v))
TESSERA_FUNCTION(floor, floorf(v))
TESSERA_FUNCTION(ceil, ceilf(v))
TESSERA_FUNCTION(trunc, truncf(v))
TESSERA_FUNCTION(rint, rintf(v))
#undef TESSERA_FUNCTION

#define TESSERA_SHUFFLE(name, type)                                                                       \
  static __device__ __forceinline__ TESSERA_ONE name(unsigned int mask, TESSERA_ONE v, type lane,         \
                                             int width = 32) {                                            \
    return TESSERA_RAW{(unsigned short)name(mask, (unsigned int)v.__x, lane, width)};                     \
  }                                                                                                       \
  static __device__ __forceinline__ TESSERA_TWO name(unsigned int mask, TESSERA_TWO v, type lane,         \
                                              int width = 32) {                                           \
    return __builtin_bit_cast(TESSERA_TWO, name(mask, __builtin_bit_cast(unsigned int, v), lane, width)); \
  }
TESSERA_SHUFFLE(__shfl_sync, int)
TESSERA_SHUFFLE(__shfl_up_sync, unsigned int)
TESSERA_SHUFFLE(__shfl_down_sync, unsigned int)
TESSERA_SHUFFLE(__shfl_xor_sync, int)
#undef TESSERA_SHUFFLE
#endif
