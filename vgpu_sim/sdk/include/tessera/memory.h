/* Loads and stores with a cache operator, address spaces, and what else reads or orders memory. */
#ifndef TESSERA_MEMORY_H
#define TESSERA_MEMORY_H

#define TESSERA_LOAD1(name, operation, type, ptx, register, carrier)                            \
  static __device__ __forceinline__ type name(const type *p) {                                  \
    carrier r;                                                                                  \
    __asm__ __volatile__("ld.global." operation "." ptx " %0, [%1];"                            \
                         : "=" register(r) : "l"(__cvta_generic_to_global(p)) : "memory");      \
    return (type)r;                                                                             \
  }
#define TESSERA_LOAD2(name, operation, type, ptx, register)                                     \
  static __device__ __forceinline__ type name(const type *p) {                                  \
    type r;                                                                                     \
    __asm__ __volatile__("ld.global." operation ".v2." ptx " {%0, %1}, [%2];"                   \
                         : "=" register(r.x), "=" register(r.y)                                 \
                         : "l"(__cvta_generic_to_global(p)) : "memory");                        \
    return r;                                                                                   \
  }
#define TESSERA_LOAD4(name, operation, type, ptx, register)                                     \
  static __device__ __forceinline__ type name(const type *p) {                                  \
    type r;                                                                                     \
    __asm__ __volatile__("ld.global." operation ".v4." ptx " {%0, %1, %2, %3}, [%4];"           \
                         : "=" register(r.x), "=" register(r.y), "=" register(r.z),             \
                           "=" register(r.w)                                                    \
                         : "l"(__cvta_generic_to_global(p)) : "memory");                        \
    return r;                                                                                   \
  }
#define TESSERA_STORE1(name, operation, type, ptx, register, carrier)                           \
  static __device__ __forceinline__ void name(type *p, type v) {                                \
    __asm__ __volatile__("st.global." operation "." ptx " [%0], %1;"                            \
                         :: "l"(__cvta_generic_to_global(p)), register((carrier)v) : "memory"); \
  }
#define TESSERA_STORE2(name, operation, type, ptx, register)                                    \
  static __device__ __forceinline__ void name(type *p, type v) {                                \
    __asm__ __volatile__("st.global." operation ".v2." ptx " [%0], {%1, %2};"                   \
                         :: "l"(__cvta_generic_to_global(p)), register(v.x), register(v.y)      \
                         : "memory");                                                           \
  }
#define TESSERA_STORE4(name, operation, type, ptx, register)                                    \
  static __device__ __forceinline__ void name(type *p, type v) {                                \
    __asm__ __volatile__("st.global." operation ".v4." ptx " [%0], {%1, %2, %3, %4};"           \
                         :: "l"(__cvta_generic_to_global(p)), register(v.x), register(v.y),     \
                            register(v.z), register(v.w)                                        \
                         : "memory");                                                           \
  }
#define TESSERA_EACH(one, two, four, name, operation)                                           \
  one(name, operation, char, "s8", "h", short)                                                  \
  one(name, operation, signed char, "s8", "h", short)                                           \
  one(name, operation, unsigned char, "u8", "h", unsigned short)                                \
  one(name, operation, short, "s16", "h", short)                                                \
  one(name, operation, unsigned short, "u16", "h", unsigned short)                              \
  one(name, operation, int, "s32", "r", int)                                                    \
  one(name, operation, unsigned int, "u32", "r", unsigned int)                                  \
  one(name, operation, long, "s64", "l", long)                                                  \
  one(name, operation, unsigned long, "u64", "l", unsigned long)                                \
  one(name, operation, long long, "s64", "l", long long)                                        \
  one(name, operation, unsigned long long, "u64", "l", unsigned long long)                      \
  one(name, operation, float, "f32", "f", float)                                                \
  one(name, operation, double, "f64", "d", double)                                              \
  two(name, operation, int2, "s32", "r")                                                        \
  two(name, operation, uint2, "u32", "r")                                                       \
  two(name, operation, float2, "f32", "f")                                                      \
  two(name, operation, longlong2, "s64", "l")                                                   \
  two(name, operation, ulonglong2, "u64", "l")                                                  \
  two(name, operation, double2, "f64", "d")                                                     \
  four(name, operation, int4, "s32", "r")                                                       \
  four(name, operation, uint4, "u32", "r")                                                      \
  four(name, operation, float4, "f32", "f")

static __device__ __forceinline__ size_t __cvta_generic_to_global(const void *p) {
  size_t r;
  __asm__("cvta.to.global.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
static __device__ __forceinline__ size_t __cvta_generic_to_shared(const void *p) {
  size_t r;
  __asm__("cvta.to.shared.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
static __device__ __forceinline__ size_t __cvta_generic_to_local(const void *p) {
  size_t r;
  __asm__("cvta.to.local.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
static __device__ __forceinline__ size_t __cvta_generic_to_constant(const void *p) {
  size_t r;
  __asm__("cvta.to.const.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
static __device__ __forceinline__ void *__cvta_shared_to_generic(size_t p) {
  void *r;
  __asm__("cvta.shared.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}
static __device__ __forceinline__ void *__cvta_global_to_generic(size_t p) {
  void *r;
  __asm__("cvta.global.u64 %0, %1;" : "=l"(r) : "l"(p));
  return r;
}

TESSERA_EACH(TESSERA_LOAD1, TESSERA_LOAD2, TESSERA_LOAD4, __ldca, "ca")
TESSERA_EACH(TESSERA_LOAD1, TESSERA_LOAD2, TESSERA_LOAD4, __ldcg, "cg")
TESSERA_EACH(TESSERA_LOAD1, TESSERA_LOAD2, TESSERA_LOAD4, __ldcs, "cs")
TESSERA_EACH(TESSERA_LOAD1, TESSERA_LOAD2, TESSERA_LOAD4, __ldlu, "lu")
TESSERA_EACH(TESSERA_LOAD1, TESSERA_LOAD2, TESSERA_LOAD4, __ldcv, "cv")
TESSERA_EACH(TESSERA_STORE1, TESSERA_STORE2, TESSERA_STORE4, __stwb, "wb")
TESSERA_EACH(TESSERA_STORE1, TESSERA_STORE2, TESSERA_STORE4, __stcg, "cg")
TESSERA_EACH(TESSERA_STORE1, TESSERA_STORE2, TESSERA_STORE4, __stcs, "cs")
TESSERA_EACH(TESSERA_STORE1, TESSERA_STORE2, TESSERA_STORE4, __stwt, "wt")

/* Vectors of small numbers are one number of their size. */
#define TESSERA_LOAD_WORD(name, type, word)                                                     \
  static __device__ __forceinline__ type name(const type *p) {                                  \
    return __builtin_bit_cast(type, name((const word *)p));                                     \
  }
#define TESSERA_STORE_WORD(name, type, word)                                                    \
  static __device__ __forceinline__ void name(type *p, type v) {                                \
    name((word *)p, __builtin_bit_cast(word, v));                                               \
  }
#define TESSERA_SMALL(access, name)                                                             \
  access(name, char2, unsigned short)                                                           \
  access(name, uchar2, unsigned short)                                                          \
  access(name, char4, unsigned int)                                                             \
  access(name, uchar4, unsigned int)                                                            \
  access(name, short2, unsigned int)                                                            \
  access(name, ushort2, unsigned int)                                                           \
  access(name, short4, unsigned long long)                                                      \
  access(name, ushort4, unsigned long long)
TESSERA_SMALL(TESSERA_LOAD_WORD, __ldca)
TESSERA_SMALL(TESSERA_LOAD_WORD, __ldcg)
TESSERA_SMALL(TESSERA_LOAD_WORD, __ldcs)
TESSERA_SMALL(TESSERA_LOAD_WORD, __ldlu)
TESSERA_SMALL(TESSERA_LOAD_WORD, __ldcv)
TESSERA_SMALL(TESSERA_STORE_WORD, __stwb)
TESSERA_SMALL(TESSERA_STORE_WORD, __stcg)
TESSERA_SMALL(TESSERA_STORE_WORD, __stcs)
TESSERA_SMALL(TESSERA_STORE_WORD, __stwt)

#undef TESSERA_EACH
#undef TESSERA_LOAD1
#undef TESSERA_LOAD2
#undef TESSERA_LOAD4
#undef TESSERA_STORE1
#undef TESSERA_STORE2
#undef TESSERA_STORE4
#undef TESSERA_SMALL
#undef TESSERA_LOAD_WORD
#undef TESSERA_STORE_WORD

#define TESSERA_SPACE(name, builtin)                                                         \
  static __device__ __forceinline__ __attribute__((const)) unsigned int name(const void *p) { \
    return builtin(p);                                                                       \
  }
TESSERA_SPACE(__isGlobal, __nvvm_isspacep_global)
TESSERA_SPACE(__isShared, __nvvm_isspacep_shared)
TESSERA_SPACE(__isConstant, __nvvm_isspacep_const)
TESSERA_SPACE(__isLocal, __nvvm_isspacep_local)
#undef TESSERA_SPACE

static __device__ __forceinline__ void __nanosleep(unsigned int ns) {
  __asm__ __volatile__("nanosleep.u32 %0;" ::"r"(ns));
}

#if __CUDA_ARCH__ >= 900
/* Programmatic dependent launch: wait for the kernel before, and let the kernel behind start. */
static __device__ __forceinline__ void cudaGridDependencySynchronize() {
  __asm__ __volatile__("griddepcontrol.wait;" ::: "memory");
}
static __device__ __forceinline__ void cudaTriggerProgrammaticLaunchCompletion() {
  __asm__ __volatile__("griddepcontrol.launch_dependents;" ::: "memory");
}
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 750
/* The fast hyperbolic tangent of CUDA 13, whose error is that of tanh.approx in PTX ISA. */
static __device__ __forceinline__ float __tanhf(float x) {
  float r;
  __asm__("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
#endif

/* Dot products of four bytes or two halves with an accumulator. */
#define TESSERA_DOT(name, type, instruction)                                               \
  static __device__ __forceinline__ type name(type a, type b, type c) {                    \
    type r;                                                                                \
    __asm__(instruction " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));            \
    return r;                                                                              \
  }
TESSERA_DOT(__dp4a, int, "dp4a.s32.s32")
TESSERA_DOT(__dp4a, unsigned int, "dp4a.u32.u32")
TESSERA_DOT(__dp2a_lo, int, "dp2a.lo.s32.s32")
TESSERA_DOT(__dp2a_hi, int, "dp2a.hi.s32.s32")
TESSERA_DOT(__dp2a_lo, unsigned int, "dp2a.lo.u32.u32")
TESSERA_DOT(__dp2a_hi, unsigned int, "dp2a.hi.u32.u32")
#undef TESSERA_DOT

/* The same of vectors, whose first element is in the lowest bits. */
#define TESSERA_VECTOR_DOT(name, type, left, right)                                           \
  static __device__ __forceinline__ type name(left a, right b, type c) {                      \
    type first = 0, second = 0;                                                               \
    __builtin_memcpy(&first, &a, sizeof a);                                                   \
    __builtin_memcpy(&second, &b, sizeof b);                                                  \
    return name(first, second, c);                                                            \
  }
TESSERA_VECTOR_DOT(__dp4a, int, char4, char4)
TESSERA_VECTOR_DOT(__dp4a, unsigned int, uchar4, uchar4)
TESSERA_VECTOR_DOT(__dp2a_lo, int, short2, char4)
TESSERA_VECTOR_DOT(__dp2a_hi, int, short2, char4)
TESSERA_VECTOR_DOT(__dp2a_lo, unsigned int, ushort2, uchar4)
TESSERA_VECTOR_DOT(__dp2a_hi, unsigned int, ushort2, uchar4)
#undef TESSERA_VECTOR_DOT

#endif
