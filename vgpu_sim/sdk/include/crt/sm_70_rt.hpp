/* clang's own headers include this name behind their __match32_any_sync() and the like: the
 * overloads that programs call. */
#ifndef TESSERA_MATCH_H
#define TESSERA_MATCH_H

#define TESSERA_MATCH(type, bits, carrier, as)                                                    \
  static __device__ __inline__ unsigned int __match_any_sync(unsigned int mask, type value) {     \
    return __match##bits##_any_sync(mask, as(carrier, value));                                    \
  }                                                                                               \
  static __device__ __inline__ unsigned int __match_all_sync(unsigned int mask, type value,       \
                                                             int *same) {                         \
    return __match##bits##_all_sync(mask, as(carrier, value), same);                              \
  }
#define TESSERA_CAST(carrier, value) ((carrier)(value))
TESSERA_MATCH(unsigned int, 32, unsigned int, TESSERA_CAST)
TESSERA_MATCH(int, 32, unsigned int, TESSERA_CAST)
TESSERA_MATCH(unsigned long, 64, unsigned long long, TESSERA_CAST)
TESSERA_MATCH(long, 64, unsigned long long, TESSERA_CAST)
TESSERA_MATCH(unsigned long long, 64, unsigned long long, TESSERA_CAST)
TESSERA_MATCH(long long, 64, unsigned long long, TESSERA_CAST)
TESSERA_MATCH(float, 32, unsigned int, __builtin_bit_cast)
TESSERA_MATCH(double, 64, unsigned long long, __builtin_bit_cast)
#undef TESSERA_CAST
#undef TESSERA_MATCH

#endif
