/* Atomic functions in the three scopes that CUDA names: block, device (no suffix) and system. */
#ifndef TESSERA_ATOMICS_H
#define TESSERA_ATOMICS_H

#define TESSERA_ATOMIC(name, operation, type, register)                                         \
  static __device__ __forceinline__ type name(type *p, type v) {                                \
    type r;                                                                                     \
    __asm__ __volatile__("atom." operation " %0, [%1], %2;"                                     \
                         : "=" register(r) : "l"(p), register(v) : "memory");                   \
    return r;                                                                                   \
  }
#define TESSERA_CAS(name, operation, type, register)                                            \
  static __device__ __forceinline__ type name(type *p, type expected, type v) {                 \
    type r;                                                                                     \
    __asm__ __volatile__("atom." operation " %0, [%1], %2, %3;"                                 \
                         : "=" register(r) : "l"(p), register(expected), register(v)            \
                         : "memory");                                                           \
    return r;                                                                                   \
  }
#define TESSERA_ATOMIC_SCOPES(name, operation, type, register)                                  \
  TESSERA_ATOMIC(name, operation, type, register)                                               \
  TESSERA_ATOMIC(name##_block, "cta." operation, type, register)                                \
  TESSERA_ATOMIC(name##_system, "sys." operation, type, register)
#define TESSERA_CAS_SCOPES(name, operation, type, register)                                     \
  TESSERA_CAS(name, operation, type, register)                                                  \
  TESSERA_CAS(name##_block, "cta." operation, type, register)                                   \
  TESSERA_CAS(name##_system, "sys." operation, type, register)

TESSERA_ATOMIC_SCOPES(atomicAdd, "add.s32", int, "r")
TESSERA_ATOMIC_SCOPES(atomicAdd, "add.u32", unsigned int, "r")
TESSERA_ATOMIC_SCOPES(atomicAdd, "add.u64", unsigned long long, "l")
TESSERA_ATOMIC_SCOPES(atomicAdd, "add.f32", float, "f")
TESSERA_ATOMIC_SCOPES(atomicAdd, "add.f64", double, "d")
TESSERA_ATOMIC_SCOPES(atomicMin, "min.s32", int, "r")
TESSERA_ATOMIC_SCOPES(atomicMin, "min.u32", unsigned int, "r")
TESSERA_ATOMIC_SCOPES(atomicMin, "min.s64", long long, "l")
TESSERA_ATOMIC_SCOPES(atomicMin, "min.u64", unsigned long long, "l")
TESSERA_ATOMIC_SCOPES(atomicMax, "max.s32", int, "r")
TESSERA_ATOMIC_SCOPES(atomicMax, "max.u32", unsigned int, "r")
TESSERA_ATOMIC_SCOPES(atomicMax, "max.s64", long long, "l")
TESSERA_ATOMIC_SCOPES(atomicMax, "max.u64", unsigned long long, "l")
TESSERA_ATOMIC_SCOPES(atomicAnd, "and.b32", int, "r")
TESSERA_ATOMIC_SCOPES(atomicAnd, "and.b32", unsigned int, "r")
TESSERA_ATOMIC_SCOPES(atomicAnd, "and.b64", unsigned long long, "l")
TESSERA_ATOMIC_SCOPES(atomicAnd, "and.b64", long long, "l")
TESSERA_ATOMIC_SCOPES(atomicOr, "or.b32", int, "r")
TESSERA_ATOMIC_SCOPES(atomicOr, "or.b32", unsigned int, "r")
TESSERA_ATOMIC_SCOPES(atomicOr, "or.b64", unsigned long long, "l")
TESSERA_ATOMIC_SCOPES(atomicOr, "or.b64", long long, "l")
TESSERA_ATOMIC_SCOPES(atomicXor, "xor.b32", int, "r")
TESSERA_ATOMIC_SCOPES(atomicXor, "xor.b32", unsigned int, "r")
TESSERA_ATOMIC_SCOPES(atomicXor, "xor.b64", unsigned long long, "l")
TESSERA_ATOMIC_SCOPES(atomicXor, "xor.b64", long long, "l")
TESSERA_ATOMIC_SCOPES(atomicExch, "exch.b32", int, "r")
TESSERA_ATOMIC_SCOPES(atomicExch, "exch.b32", unsigned int, "r")
TESSERA_ATOMIC_SCOPES(atomicExch, "exch.b64", unsigned long long, "l")
TESSERA_ATOMIC_SCOPES(atomicExch, "exch.b64", long long, "l")
TESSERA_ATOMIC_SCOPES(atomicExch, "exch.b32", float, "f")
TESSERA_ATOMIC_SCOPES(atomicExch, "exch.b64", double, "d")
TESSERA_ATOMIC_SCOPES(atomicInc, "inc.u32", unsigned int, "r")
TESSERA_ATOMIC_SCOPES(atomicDec, "dec.u32", unsigned int, "r")
TESSERA_CAS_SCOPES(atomicCAS, "cas.b32", int, "r")
TESSERA_CAS_SCOPES(atomicCAS, "cas.b32", unsigned int, "r")
TESSERA_CAS_SCOPES(atomicCAS, "cas.b64", unsigned long long, "l")
TESSERA_CAS_SCOPES(atomicCAS, "cas.b64", long long, "l")
TESSERA_CAS_SCOPES(atomicCAS, "cas.b16", unsigned short, "h")

#define TESSERA_ATOMIC_SUB(suffix)                                                              \
  static __device__ __forceinline__ int atomicSub##suffix(int *p, int v) {                      \
    return atomicAdd##suffix(p, (int)-(unsigned int)v);                                         \
  }                                                                                             \
  static __device__ __forceinline__ unsigned int atomicSub##suffix(unsigned int *p,             \
                                                                   unsigned int v) {            \
    return atomicAdd##suffix(p, -v);                                                            \
  }
TESSERA_ATOMIC_SUB()
TESSERA_ATOMIC_SUB(_block)
TESSERA_ATOMIC_SUB(_system)

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/* clang's functions of this name lack `volatile`: it removes calls whose result has no use. */
#define TESSERA_ATOMIC_VECTORS(suffix, scope)                                                   \
  static __device__ __forceinline__ float2 atomicAdd##suffix(float2 *p, float2 v) {             \
    float2 r;                                                                                   \
    __asm__ __volatile__("atom" scope ".add.v2.f32 {%0, %1}, [%2], {%3, %4};"                   \
                         : "=f"(r.x), "=f"(r.y)                                                 \
                         : "l"(p), "f"(v.x), "f"(v.y)                                           \
                         : "memory");                                                           \
    return r;                                                                                   \
  }                                                                                             \
  static __device__ __forceinline__ float4 atomicAdd##suffix(float4 *p, float4 v) {             \
    float4 r;                                                                                   \
    __asm__ __volatile__(                                                                       \
        "atom" scope ".add.v4.f32 {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};"                    \
        : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)                                            \
        : "l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)                                        \
        : "memory");                                                                            \
    return r;                                                                                   \
  }
TESSERA_ATOMIC_VECTORS(, "")
TESSERA_ATOMIC_VECTORS(_block, ".cta")
TESSERA_ATOMIC_VECTORS(_system, ".sys")
#undef TESSERA_ATOMIC_VECTORS
#endif

#undef TESSERA_ATOMIC_SUB
#undef TESSERA_ATOMIC_SCOPES
#undef TESSERA_CAS_SCOPES
#undef TESSERA_ATOMIC
#undef TESSERA_CAS

#endif
