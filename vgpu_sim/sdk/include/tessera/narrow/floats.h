/* What halves and bfloat16 have in common. Each of their headers includes this one; TESSERA_ONE
 * and TESSERA_TWO are then the types of one value and of two, and TESSERA_WORD and TESSERA_WORDS
 * their names in those of functions. */

#define TESSERA_PASTE(a, b, c, d) a##b##c##d
#define TESSERA_JOIN(a, b, c, d) TESSERA_PASTE(a, b, c, d)

/* Rounds down for a direction of -1, up for 1, to zero for 0. */
TESSERA_HD TESSERA_ONE tessera_rounded(TESSERA_ONE nearest, double exact, int direction) {
  const double v = (double)(float)nearest;
  const int wanted = direction ? direction : exact < 0.0 ? 1 : -1;
  if (v == exact || exact != exact || (v < exact) == (wanted < 0)) return nearest;
  const unsigned short bits = nearest.__x;
  if (v == 0.0) nearest.__x = wanted < 0 ? 0x8001 : 0x0001;
  else nearest.__x = (unsigned short)((v > 0.0) == (wanted > 0) ? bits + 1 : bits - 1);
  return nearest;
}

#define TESSERA_FROM(type, name, exact)                                                          \
  TESSERA_HD TESSERA_ONE TESSERA_JOIN(__, name##2, TESSERA_WORD, _rd)(type a) {                  \
    return tessera_rounded(TESSERA_ONE(exact), exact, -1);                                       \
  }                                                                                              \
  TESSERA_HD TESSERA_ONE TESSERA_JOIN(__, name##2, TESSERA_WORD, _ru)(type a) {                  \
    return tessera_rounded(TESSERA_ONE(exact), exact, 1);                                        \
  }                                                                                              \
  TESSERA_HD TESSERA_ONE TESSERA_JOIN(__, name##2, TESSERA_WORD, _rz)(type a) {                  \
    return tessera_rounded(TESSERA_ONE(exact), exact, 0);                                        \
  }
#define TESSERA_INTEGER(type, name, exact)                                                       \
  TESSERA_FROM(type, name, exact)                                                                \
  TESSERA_HD TESSERA_ONE TESSERA_JOIN(__, name##2, TESSERA_WORD, _rn)(type a) {                  \
    return TESSERA_ONE(exact);                                                                   \
  }                                                                                              \
  TESSERA_HD type TESSERA_JOIN(__, TESSERA_WORD, 2##name, _rn)(TESSERA_ONE a) {                  \
    return tessera_integer<type>(rintf((float)a));                                               \
  }                                                                                              \
  TESSERA_HD type TESSERA_JOIN(__, TESSERA_WORD, 2##name, _rd)(TESSERA_ONE a) {                  \
    return tessera_integer<type>(floorf((float)a));                                              \
  }                                                                                              \
  TESSERA_HD type TESSERA_JOIN(__, TESSERA_WORD, 2##name, _ru)(TESSERA_ONE a) {                  \
    return tessera_integer<type>(ceilf((float)a));                                               \
  }                                                                                              \
  TESSERA_TRUNCATED(type, name)
#define TESSERA_TRUNCATED(type, name)                                                            \
  TESSERA_HD type TESSERA_JOIN(__, TESSERA_WORD, 2##name, _rz)(TESSERA_ONE a) {                  \
    return tessera_integer<type>(truncf((float)a));                                              \
  }
TESSERA_FROM(float, float, (double)a)
TESSERA_INTEGER(int, int, (double)a)
TESSERA_INTEGER(unsigned int, uint, (double)a)
TESSERA_INTEGER(short, short, (double)a)
TESSERA_INTEGER(unsigned short, ushort, (double)a)
TESSERA_INTEGER(long long, ll, tessera_sticky(a))
TESSERA_INTEGER(unsigned long long, ull, tessera_sticky(a))
TESSERA_TRUNCATED(signed char, char)
TESSERA_TRUNCATED(unsigned char, uchar)
#undef TESSERA_FROM
#undef TESSERA_INTEGER
#undef TESSERA_TRUNCATED

TESSERA_HD TESSERA_TWO TESSERA_JOIN(__lows2, TESSERA_WORDS, , )(TESSERA_TWO a, TESSERA_TWO b) {
  return TESSERA_TWO(a.x, b.x);
}
TESSERA_HD TESSERA_TWO TESSERA_JOIN(__highs2, TESSERA_WORDS, , )(TESSERA_TWO a, TESSERA_TWO b) {
  return TESSERA_TWO(a.y, b.y);
}
TESSERA_HD TESSERA_TWO __lowhigh2highlow(TESSERA_TWO a) { return TESSERA_TWO(a.y, a.x); }

/* Between 0 and 1; a NaN becomes 0. */
TESSERA_HD TESSERA_ONE tessera_saturated(TESSERA_ONE a) {
  return TESSERA_ONE((float)a > 1.0f ? 1.0f : (float)a > 0.0f ? (float)a : 0.0f);
}
#define TESSERA_VARIANTS(name)                                                                   \
  TESSERA_HD TESSERA_ONE name##_rn(TESSERA_ONE a, TESSERA_ONE b) { return name(a, b); }          \
  TESSERA_HD TESSERA_TWO name##2_rn(TESSERA_TWO a, TESSERA_TWO b) { return name##2(a, b); }      \
  TESSERA_HD TESSERA_ONE name##_sat(TESSERA_ONE a, TESSERA_ONE b) {                              \
    return tessera_saturated(name(a, b));                                                        \
  }                                                                                              \
  TESSERA_HD TESSERA_TWO name##2_sat(TESSERA_TWO a, TESSERA_TWO b) {                             \
    return TESSERA_TWO(name##_sat(a.x, b.x), name##_sat(a.y, b.y));                              \
  }
TESSERA_VARIANTS(__hadd)
TESSERA_VARIANTS(__hsub)
TESSERA_VARIANTS(__hmul)
#undef TESSERA_VARIANTS
TESSERA_HD TESSERA_ONE __hfma_sat(TESSERA_ONE a, TESSERA_ONE b, TESSERA_ONE c) {
  return tessera_saturated(__hfma(a, b, c));
}
TESSERA_HD TESSERA_TWO __hfma2_sat(TESSERA_TWO a, TESSERA_TWO b, TESSERA_TWO c) {
  return TESSERA_TWO(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}
TESSERA_HD TESSERA_TWO __hfma2_relu(TESSERA_TWO a, TESSERA_TWO b, TESSERA_TWO c) {
  return TESSERA_TWO(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));
}
/* The product of two complex numbers, plus a third. */
TESSERA_HD TESSERA_TWO __hcmadd(TESSERA_TWO a, TESSERA_TWO b, TESSERA_TWO c) {
  const TESSERA_ONE real = __hfma(a.x, b.x, c.x), imaginary = __hfma(a.x, b.y, c.y);
  return TESSERA_TWO(__hfma(__hneg(a.y), b.y, real), __hfma(a.y, b.x, imaginary));
}

/* Comparisons that are true for a NaN; masks have 16 set bits for each true one. */
#define TESSERA_UNORDERED(name, opposite)                                                        \
  TESSERA_HD bool name##u(TESSERA_ONE a, TESSERA_ONE b) { return !opposite(a, b); }              \
  TESSERA_HD TESSERA_TWO name##u2(TESSERA_TWO a, TESSERA_TWO b) {                                \
    return TESSERA_TWO(TESSERA_ONE(name##u(a.x, b.x) ? 1.0f : 0.0f),                             \
                       TESSERA_ONE(name##u(a.y, b.y) ? 1.0f : 0.0f));                            \
  }
TESSERA_UNORDERED(__heq, __hne)
TESSERA_UNORDERED(__hlt, __hge)
TESSERA_UNORDERED(__hle, __hgt)
TESSERA_UNORDERED(__hgt, __hle)
TESSERA_UNORDERED(__hge, __hlt)
#undef TESSERA_UNORDERED
#define TESSERA_BOTH(word)                                                                       \
  TESSERA_HD bool __hb##word##u2(TESSERA_TWO a, TESSERA_TWO b) {                                 \
    return __h##word##u(a.x, b.x) && __h##word##u(a.y, b.y);                                     \
  }
TESSERA_BOTH(eq)
TESSERA_BOTH(lt)
TESSERA_BOTH(le)
TESSERA_BOTH(gt)
TESSERA_BOTH(ge)
#undef TESSERA_BOTH
#define TESSERA_MASK(name)                                                                       \
  TESSERA_HD unsigned int __h##name##2_mask(TESSERA_TWO a, TESSERA_TWO b) {                      \
    return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);      \
  }
TESSERA_MASK(eq)
TESSERA_MASK(ne)
TESSERA_MASK(lt)
TESSERA_MASK(le)
TESSERA_MASK(gt)
TESSERA_MASK(ge)
TESSERA_MASK(equ)
TESSERA_MASK(neu)
TESSERA_MASK(ltu)
TESSERA_MASK(leu)
TESSERA_MASK(gtu)
TESSERA_MASK(geu)
#undef TESSERA_MASK
TESSERA_HD TESSERA_TWO __hisnan2(TESSERA_TWO a) {
  return TESSERA_TWO(TESSERA_ONE(__hisnan(a.x) ? 1.0f : 0.0f), TESSERA_ONE(__hisnan(a.y) ? 1.0f : 0.0f));
}
#define TESSERA_EXTREME(name)                                                                    \
  TESSERA_HD TESSERA_ONE name##_nan(TESSERA_ONE a, TESSERA_ONE b) {                              \
    return __hisnan(a) || __hisnan(b) ? TESSERA_ONE(NAN) : name(a, b);                           \
  }                                                                                              \
  TESSERA_HD TESSERA_TWO name##2_nan(TESSERA_TWO a, TESSERA_TWO b) {                             \
    return TESSERA_TWO(name##_nan(a.x, b.x), name##_nan(a.y, b.y));                              \
  }
TESSERA_EXTREME(__hmax)
TESSERA_EXTREME(__hmin)
#undef TESSERA_EXTREME

#define TESSERA_ASSIGN(op)                                                                       \
  TESSERA_HD TESSERA_TWO &operator op##=(TESSERA_TWO &a, TESSERA_TWO b) { return a = a op b; }
TESSERA_ASSIGN(+)
TESSERA_ASSIGN(-)
TESSERA_ASSIGN(*)
TESSERA_ASSIGN(/)
#undef TESSERA_ASSIGN
#define TESSERA_STEP(op, binary)                                                                 \
  TESSERA_HD TESSERA_ONE &operator op(TESSERA_ONE &a) { return a = a binary TESSERA_ONE(1.0f); } \
  TESSERA_HD TESSERA_ONE operator op(TESSERA_ONE &a, int) {                                      \
    const TESSERA_ONE before = a;                                                                \
    op a;                                                                                        \
    return before;                                                                               \
  }                                                                                              \
  TESSERA_HD TESSERA_TWO &operator op(TESSERA_TWO &a) {                                          \
    return a = a binary TESSERA_TWO(TESSERA_ONE(1.0f), TESSERA_ONE(1.0f));                       \
  }                                                                                              \
  TESSERA_HD TESSERA_TWO operator op(TESSERA_TWO &a, int) {                                      \
    const TESSERA_TWO before = a;                                                                \
    op a;                                                                                        \
    return before;                                                                               \
  }
TESSERA_STEP(++, +)
TESSERA_STEP(--, -)
#undef TESSERA_STEP
TESSERA_HD TESSERA_ONE operator+(TESSERA_ONE a) { return a; }
TESSERA_HD TESSERA_TWO operator+(TESSERA_TWO a) { return a; }
TESSERA_HD TESSERA_TWO operator-(TESSERA_TWO a) { return __hneg2(a); }
TESSERA_HD bool operator==(TESSERA_TWO a, TESSERA_TWO b) { return __hbeq2(a, b); }
TESSERA_HD bool operator!=(TESSERA_TWO a, TESSERA_TWO b) { return __hbneu2(a, b); }
TESSERA_HD bool operator<(TESSERA_TWO a, TESSERA_TWO b) { return __hblt2(a, b); }
TESSERA_HD bool operator<=(TESSERA_TWO a, TESSERA_TWO b) { return __hble2(a, b); }
TESSERA_HD bool operator>(TESSERA_TWO a, TESSERA_TWO b) { return __hbgt2(a, b); }
TESSERA_HD bool operator>=(TESSERA_TWO a, TESSERA_TWO b) { return __hbge2(a, b); }

#if defined(__CUDA__)
static __device__ __forceinline__ TESSERA_ONE htanh_approx(TESSERA_ONE a) { return htanh(a); }
static __device__ __forceinline__ TESSERA_TWO h2tanh_approx(TESSERA_TWO a) { return h2tanh(a); }
#define TESSERA_LOAD(name)                                                                       \
  static __device__ __forceinline__ TESSERA_ONE name(const TESSERA_ONE *p) {                     \
    return __builtin_bit_cast(TESSERA_ONE, name((const unsigned short *)p));                     \
  }                                                                                              \
  static __device__ __forceinline__ TESSERA_TWO name(const TESSERA_TWO *p) {                     \
    return __builtin_bit_cast(TESSERA_TWO, name((const unsigned int *)p));                       \
  }
TESSERA_LOAD(__ldg)
TESSERA_LOAD(__ldca)
TESSERA_LOAD(__ldcg)
TESSERA_LOAD(__ldcs)
TESSERA_LOAD(__ldcv)
TESSERA_LOAD(__ldlu)
#undef TESSERA_LOAD
#define TESSERA_STORE(name)                                                                      \
  static __device__ __forceinline__ void name(TESSERA_ONE *p, TESSERA_ONE v) {                   \
    name((unsigned short *)p, v.__x);                                                            \
  }                                                                                              \
  static __device__ __forceinline__ void name(TESSERA_TWO *p, TESSERA_TWO v) {                   \
    name((unsigned int *)p, __builtin_bit_cast(unsigned int, v));                                \
  }
TESSERA_STORE(__stcg)
TESSERA_STORE(__stcs)
TESSERA_STORE(__stwb)
TESSERA_STORE(__stwt)
#undef TESSERA_STORE
#endif

#undef TESSERA_PASTE
#undef TESSERA_JOIN
