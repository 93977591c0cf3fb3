/* The functions for dynamic programming (CUDA C++ Programming Guide, "DPX"): maxima and minima of
 * two or three numbers and of sums, which wrap around, for one number or for both halves of a word.
 * The host has them, too. */
#ifndef TESSERA_DPX_H
#define TESSERA_DPX_H

#define TESSERA_DPX static __inline__ __attribute__((always_inline, host, device))

template <class N>
TESSERA_DPX N tessera_larger(N a, N b) { return a > b ? a : b; }
template <class N>
TESSERA_DPX N tessera_smaller(N a, N b) { return a < b ? a : b; }
template <class N>
TESSERA_DPX N tessera_wrapped_sum(N a, N b) { return (N)((unsigned int)a + (unsigned int)b); }

/* One number, and both halves of a word; N is the type of a number. */
#define TESSERA_WHOLE(name, number, value)                   \
  TESSERA_DPX number name(number a, number b, number c) {    \
    typedef number N;                                        \
    return value;                                            \
  }
#define TESSERA_HALVES(name, number, value)                                                      \
  TESSERA_WHOLE(tessera##name, number, value)                                                    \
  TESSERA_DPX unsigned int name(unsigned int a, unsigned int b, unsigned int c) {                \
    const unsigned short low = tessera##name((number)a, (number)b, (number)c);                   \
    const number high = tessera##name((number)(a >> 16), (number)(b >> 16), (number)(c >> 16));  \
    return (unsigned int)high << 16 | low;                                                       \
  }
#define TESSERA_THREE(name, value)                                              \
  TESSERA_WHOLE(name##_s32, int, value)                                         \
  TESSERA_WHOLE(name##_u32, unsigned int, value)                                \
  TESSERA_HALVES(name##_s16x2, short, value)                                    \
  TESSERA_HALVES(name##_u16x2, unsigned short, value)                           \
  TESSERA_WHOLE(name##_s32_relu, int, tessera_larger<N>(value, 0))              \
  TESSERA_HALVES(name##_s16x2_relu, short, tessera_larger<N>(value, 0))
TESSERA_THREE(__vimax3, tessera_larger<N>(tessera_larger<N>(a, b), c))
TESSERA_THREE(__vimin3, tessera_smaller<N>(tessera_smaller<N>(a, b), c))
TESSERA_THREE(__viaddmax, tessera_larger<N>(tessera_wrapped_sum<N>(a, b), c))
TESSERA_THREE(__viaddmin, tessera_smaller<N>(tessera_wrapped_sum<N>(a, b), c))
#undef TESSERA_THREE
#undef TESSERA_HALVES
#undef TESSERA_WHOLE

TESSERA_DPX int __vimax_s32_relu(int a, int b) { return __vimax3_s32(a, b, 0); }
TESSERA_DPX int __vimin_s32_relu(int a, int b) { return __vimin3_s32_relu(a, b, a); }
TESSERA_DPX unsigned int __vimax_s16x2_relu(unsigned int a, unsigned int b) { return __vimax3_s16x2(a, b, 0); }
TESSERA_DPX unsigned int __vimin_s16x2_relu(unsigned int a, unsigned int b) { return __vimin3_s16x2_relu(a, b, a); }

/* These also state whether the first operand is the result; of equal ones, it is. */
#define TESSERA_EITHER(name, number, op)                                             \
  TESSERA_DPX number name(number a, number b, bool *first) {                         \
    *first = a op b;                                                                 \
    return *first ? a : b;                                                           \
  }
#define TESSERA_EITHER_HALF(name, number, op)                                                               \
  TESSERA_EITHER(tessera##name, number, op)                                                                 \
  TESSERA_DPX unsigned int name(unsigned int a, unsigned int b, bool *high_first, bool *low_first) {        \
    const number high = tessera##name((number)(a >> 16), (number)(b >> 16), high_first);                    \
    return (unsigned int)high << 16 | (unsigned short)tessera##name((number)a, (number)b, low_first);       \
  }
#define TESSERA_EITHERS(name, op)                      \
  TESSERA_EITHER(name##_s32, int, op)                  \
  TESSERA_EITHER(name##_u32, unsigned int, op)         \
  TESSERA_EITHER_HALF(name##_s16x2, short, op)         \
  TESSERA_EITHER_HALF(name##_u16x2, unsigned short, op)
TESSERA_EITHERS(__vibmax, >=)
TESSERA_EITHERS(__vibmin, <=)
#undef TESSERA_EITHERS
#undef TESSERA_EITHER_HALF
#undef TESSERA_EITHER

#undef TESSERA_DPX

#endif
