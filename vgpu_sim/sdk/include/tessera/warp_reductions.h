/* Reductions over the lanes of a warp (PTX ISA, redux.sync). The header of clang 19 exchanges the
 * value and the mask. */
#ifndef TESSERA_WARP_REDUCTIONS_H
#define TESSERA_WARP_REDUCTIONS_H

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define TESSERA_REDUCE(name, operation, type)                                \
  __device__ inline type __reduce_##name##_sync(unsigned mask, type value) { \
    type result;                                                             \
    __asm__ volatile("redux.sync." operation " %0, %1, %2;"                  \
                     : "=r"(result)                                          \
                     : "r"(value), "r"(mask));                               \
    return result;                                                           \
  }
TESSERA_REDUCE(add, "add.u32", unsigned)
TESSERA_REDUCE(add, "add.s32", int)
TESSERA_REDUCE(min, "min.u32", unsigned)
TESSERA_REDUCE(min, "min.s32", int)
TESSERA_REDUCE(max, "max.u32", unsigned)
TESSERA_REDUCE(max, "max.s32", int)
TESSERA_REDUCE(and, "and.b32", unsigned)
TESSERA_REDUCE(or, "or.b32", unsigned)
TESSERA_REDUCE(xor, "xor.b32", unsigned)
#undef TESSERA_REDUCE
#endif

#endif
