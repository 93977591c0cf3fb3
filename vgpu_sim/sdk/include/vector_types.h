/* CUDA's vector types: members x, y, z and w, with the alignment that vector accesses need. */
#ifndef TESSERA_VECTOR_TYPES_H
#define TESSERA_VECTOR_TYPES_H

#include "host_defines.h"

#define TESSERA_VECTOR(name, alignment, ...)             \
  typedef struct __attribute__((aligned(alignment))) name { \
    __VA_ARGS__;                                         \
  } name;

TESSERA_VECTOR(char1, 1, signed char x)
TESSERA_VECTOR(char2, 2, signed char x, y)
TESSERA_VECTOR(char3, 1, signed char x, y, z)
TESSERA_VECTOR(char4, 4, signed char x, y, z, w)
TESSERA_VECTOR(uchar1, 1, unsigned char x)
TESSERA_VECTOR(uchar2, 2, unsigned char x, y)
TESSERA_VECTOR(uchar3, 1, unsigned char x, y, z)
TESSERA_VECTOR(uchar4, 4, unsigned char x, y, z, w)
TESSERA_VECTOR(short1, 2, short x)
TESSERA_VECTOR(short2, 4, short x, y)
TESSERA_VECTOR(short3, 2, short x, y, z)
TESSERA_VECTOR(short4, 8, short x, y, z, w)
TESSERA_VECTOR(ushort1, 2, unsigned short x)
TESSERA_VECTOR(ushort2, 4, unsigned short x, y)
TESSERA_VECTOR(ushort3, 2, unsigned short x, y, z)
TESSERA_VECTOR(ushort4, 8, unsigned short x, y, z, w)
TESSERA_VECTOR(int1, 4, int x)
TESSERA_VECTOR(int2, 8, int x, y)
TESSERA_VECTOR(int3, 4, int x, y, z)
TESSERA_VECTOR(int4, 16, int x, y, z, w)
TESSERA_VECTOR(uint1, 4, unsigned int x)
TESSERA_VECTOR(uint2, 8, unsigned int x, y)
TESSERA_VECTOR(uint3, 4, unsigned int x, y, z)
TESSERA_VECTOR(uint4, 16, unsigned int x, y, z, w)
TESSERA_VECTOR(long1, 8, long x)
TESSERA_VECTOR(long2, 16, long x, y)
TESSERA_VECTOR(long3, 8, long x, y, z)
TESSERA_VECTOR(long4, 16, long x, y, z, w)
TESSERA_VECTOR(ulong1, 8, unsigned long x)
TESSERA_VECTOR(ulong2, 16, unsigned long x, y)
TESSERA_VECTOR(ulong3, 8, unsigned long x, y, z)
TESSERA_VECTOR(ulong4, 16, unsigned long x, y, z, w)
TESSERA_VECTOR(longlong1, 8, long long x)
TESSERA_VECTOR(longlong2, 16, long long x, y)
TESSERA_VECTOR(longlong3, 8, long long x, y, z)
TESSERA_VECTOR(longlong4, 16, long long x, y, z, w)
TESSERA_VECTOR(ulonglong1, 8, unsigned long long x)
TESSERA_VECTOR(ulonglong2, 16, unsigned long long x, y)
TESSERA_VECTOR(ulonglong3, 8, unsigned long long x, y, z)
TESSERA_VECTOR(ulonglong4, 16, unsigned long long x, y, z, w)
TESSERA_VECTOR(float1, 4, float x)
TESSERA_VECTOR(float2, 8, float x, y)
TESSERA_VECTOR(float3, 4, float x, y, z)
TESSERA_VECTOR(float4, 16, float x, y, z, w)
TESSERA_VECTOR(double1, 8, double x)
TESSERA_VECTOR(double2, 16, double x, y)
TESSERA_VECTOR(double3, 8, double x, y, z)
TESSERA_VECTOR(double4, 16, double x, y, z, w)

#undef TESSERA_VECTOR

typedef struct dim3 {
  unsigned int x, y, z;
#ifdef __cplusplus
  __host__ __device__ constexpr dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1)
      : x(a), y(b), z(c) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
} dim3;

#endif
