/* make_float4() and the like. */
#ifndef TESSERA_VECTOR_FUNCTIONS_H
#define TESSERA_VECTOR_FUNCTIONS_H

#include "vector_types.h"

#define TESSERA_MAKE(type, element)                                                             \
  static __inline__ __host__ __device__ type##1 make_##type##1(element x) {                    \
    type##1 v = {x};                                                                            \
    return v;                                                                                   \
  }                                                                                             \
  static __inline__ __host__ __device__ type##2 make_##type##2(element x, element y) {         \
    type##2 v = {x, y};                                                                         \
    return v;                                                                                   \
  }                                                                                             \
  static __inline__ __host__ __device__ type##3 make_##type##3(element x, element y, element z) { \
    type##3 v = {x, y, z};                                                                      \
    return v;                                                                                   \
  }                                                                                             \
  static __inline__ __host__ __device__ type##4 make_##type##4(element x, element y, element z, \
                                                               element w) {                     \
    type##4 v = {x, y, z, w};                                                                   \
    return v;                                                                                   \
  }

TESSERA_MAKE(char, signed char)
TESSERA_MAKE(uchar, unsigned char)
TESSERA_MAKE(short, short)
TESSERA_MAKE(ushort, unsigned short)
TESSERA_MAKE(int, int)
TESSERA_MAKE(uint, unsigned int)
TESSERA_MAKE(long, long)
TESSERA_MAKE(ulong, unsigned long)
TESSERA_MAKE(longlong, long long)
TESSERA_MAKE(ulonglong, unsigned long long)
TESSERA_MAKE(float, float)
TESSERA_MAKE(double, double)

#undef TESSERA_MAKE

#endif
