/* nvcuda::wmma: products of tiles by a warp. How a fragment's elements are distributed over threads is
 * not specified, here as in CUDA. */
#ifndef TESSERA_MMA_H
#define TESSERA_MMA_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#if defined(__CUDA__)
namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

namespace details {
/* Bytes of one thread's registers: those of the PTX instruction. */
template <class Use, int M, int N, int K, class T>
struct registers;
template <class T>
struct element {
  using type = T;
};
template <>
struct element<precision::tf32> {
  using type = float;
};
}  // namespace details

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  using element_type = typename details::element<T>::type;
  static constexpr int words = details::registers<Use, M, N, K, T>::words;
  static constexpr int num_elements = words * 4 / sizeof(element_type);
  static constexpr int num_storage_elements = num_elements;
  union {
    element_type x[num_elements];
    unsigned int word[words];
  };
  __device__ fragment() {}
};

template <class Use, int M, int N, int K, class T, class Layout, class V>
static __device__ __forceinline__ void fill_fragment(fragment<Use, M, N, K, T, Layout> &f, V v) {
  for (int i = 0; i < f.num_elements; i++) {
    f.x[i] = (typename fragment<Use, M, N, K, T, Layout>::element_type)v;
  }
}
static __device__ __forceinline__ float __float_to_tf32(float v) {
  unsigned int r;
  __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return __uint_as_float(r);
}

#define TESSERA_WORDS(use, m, n, k, type, count)        \
  namespace details {                                   \
  template <>                                           \
  struct registers<use, m, n, k, type> {                \
    static constexpr int words = count;                 \
  };                                                    \
  }

#define TESSERA_LOAD1(use, m, n, k, type, element, layout, text)                                     \
  static __device__ __forceinline__ void load_matrix_sync(                                        \
      fragment<use, m, n, k, type, layout##_major> &f, const element *p, unsigned int stride) {   \
    __asm__ __volatile__("wmma.load." text " {%0}, [%1], %2;"                            \
                         : "=r"(f.word[0])                                                          \
                         : "l"(p), "r"(stride) : "memory");                                       \
  }
#define TESSERA_LOAD2(use, m, n, k, type, element, layout, text)                                     \
  static __device__ __forceinline__ void load_matrix_sync(                                        \
      fragment<use, m, n, k, type, layout##_major> &f, const element *p, unsigned int stride) {   \
    __asm__ __volatile__("wmma.load." text " {%0, %1}, [%2], %3;"                            \
                         : "=r"(f.word[0]), "=r"(f.word[1])                                                          \
                         : "l"(p), "r"(stride) : "memory");                                       \
  }
#define TESSERA_LOAD4(use, m, n, k, type, element, layout, text)                                     \
  static __device__ __forceinline__ void load_matrix_sync(                                        \
      fragment<use, m, n, k, type, layout##_major> &f, const element *p, unsigned int stride) {   \
    __asm__ __volatile__("wmma.load." text " {%0, %1, %2, %3}, [%4], %5;"                            \
                         : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3])                                                          \
                         : "l"(p), "r"(stride) : "memory");                                       \
  }
#define TESSERA_LOAD8(use, m, n, k, type, element, layout, text)                                     \
  static __device__ __forceinline__ void load_matrix_sync(                                        \
      fragment<use, m, n, k, type, layout##_major> &f, const element *p, unsigned int stride) {   \
    __asm__ __volatile__("wmma.load." text " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"                            \
                         : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3]), "=r"(f.word[4]), "=r"(f.word[5]), "=r"(f.word[6]), "=r"(f.word[7])                                                          \
                         : "l"(p), "r"(stride) : "memory");                                       \
  }
#define TESSERA_ACCUMULATOR4(m, n, k, type, shape, text)                                              \
  static __device__ __forceinline__ void load_matrix_sync(                                        \
      fragment<accumulator, m, n, k, type> &f, const type *p, unsigned int stride,                \
      layout_t layout) {                                                                          \
    if (layout == mem_row_major) {                                                                \
      __asm__ __volatile__("wmma.load.c.sync.aligned.row." shape "." text                         \
                           " {%0, %1, %2, %3}, [%4], %5;"                                            \
                           : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3]) : "l"(p), "r"(stride) : "memory");                     \
    } else {                                                                                      \
      __asm__ __volatile__("wmma.load.c.sync.aligned.col." shape "." text                         \
                           " {%0, %1, %2, %3}, [%4], %5;"                                            \
                           : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3]) : "l"(p), "r"(stride) : "memory");                     \
    }                                                                                             \
  }                                                                                               \
  static __device__ __forceinline__ void store_matrix_sync(                                       \
      type *p, const fragment<accumulator, m, n, k, type> &f, unsigned int stride,                \
      layout_t layout) {                                                                          \
    if (layout == mem_row_major) {                                                                \
      __asm__ __volatile__("wmma.store.d.sync.aligned.row." shape "." text                        \
                           " [%4], {%0, %1, %2, %3}, %5;"                                            \
                           :: "r"(f.word[0]), "r"(f.word[1]), "r"(f.word[2]), "r"(f.word[3]), "l"(p), "r"(stride) : "memory");               \
    } else {                                                                                      \
      __asm__ __volatile__("wmma.store.d.sync.aligned.col." shape "." text                        \
                           " [%4], {%0, %1, %2, %3}, %5;"                                            \
                           :: "r"(f.word[0]), "r"(f.word[1]), "r"(f.word[2]), "r"(f.word[3]), "l"(p), "r"(stride) : "memory");               \
    }                                                                                             \
  }
#define TESSERA_ACCUMULATOR8(m, n, k, type, shape, text)                                              \
  static __device__ __forceinline__ void load_matrix_sync(                                        \
      fragment<accumulator, m, n, k, type> &f, const type *p, unsigned int stride,                \
      layout_t layout) {                                                                          \
    if (layout == mem_row_major) {                                                                \
      __asm__ __volatile__("wmma.load.c.sync.aligned.row." shape "." text                         \
                           " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"                                            \
                           : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3]), "=r"(f.word[4]), "=r"(f.word[5]), "=r"(f.word[6]), "=r"(f.word[7]) : "l"(p), "r"(stride) : "memory");                     \
    } else {                                                                                      \
      __asm__ __volatile__("wmma.load.c.sync.aligned.col." shape "." text                         \
                           " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"                                            \
                           : "=r"(f.word[0]), "=r"(f.word[1]), "=r"(f.word[2]), "=r"(f.word[3]), "=r"(f.word[4]), "=r"(f.word[5]), "=r"(f.word[6]), "=r"(f.word[7]) : "l"(p), "r"(stride) : "memory");                     \
    }                                                                                             \
  }                                                                                               \
  static __device__ __forceinline__ void store_matrix_sync(                                       \
      type *p, const fragment<accumulator, m, n, k, type> &f, unsigned int stride,                \
      layout_t layout) {                                                                          \
    if (layout == mem_row_major) {                                                                \
      __asm__ __volatile__("wmma.store.d.sync.aligned.row." shape "." text                        \
                           " [%8], {%0, %1, %2, %3, %4, %5, %6, %7}, %9;"                                            \
                           :: "r"(f.word[0]), "r"(f.word[1]), "r"(f.word[2]), "r"(f.word[3]), "r"(f.word[4]), "r"(f.word[5]), "r"(f.word[6]), "r"(f.word[7]), "l"(p), "r"(stride) : "memory");               \
    } else {                                                                                      \
      __asm__ __volatile__("wmma.store.d.sync.aligned.col." shape "." text                        \
                           " [%8], {%0, %1, %2, %3, %4, %5, %6, %7}, %9;"                                            \
                           :: "r"(f.word[0]), "r"(f.word[1]), "r"(f.word[2]), "r"(f.word[3]), "r"(f.word[4]), "r"(f.word[5]), "r"(f.word[6]), "r"(f.word[7]), "l"(p), "r"(stride) : "memory");               \
    }                                                                                             \
  }
#define TESSERA_MMA_8_8_8(m, n, k, type, result, first, second, text, types)                        \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, m, n, k, result> &d,                                                  \
      const fragment<matrix_a, m, n, k, type, first##_major> &a,                                  \
      const fragment<matrix_b, m, n, k, type, second##_major> &b,                                 \
      const fragment<accumulator, m, n, k, result> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second "." text types " "           \
                         "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, {%24, %25, %26, %27, %28, %29, %30, %31};" \
                         : "=r"(d.word[0]), "=r"(d.word[1]), "=r"(d.word[2]), "=r"(d.word[3]), "=r"(d.word[4]), "=r"(d.word[5]), "=r"(d.word[6]), "=r"(d.word[7])                                                          \
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(a.word[4]), "r"(a.word[5]), "r"(a.word[6]), "r"(a.word[7]), "r"(b.word[0]), "r"(b.word[1]), "r"(b.word[2]), "r"(b.word[3]), "r"(b.word[4]), "r"(b.word[5]), "r"(b.word[6]), "r"(b.word[7]),                              \
                           "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]), "r"(c.word[3]), "r"(c.word[4]), "r"(c.word[5]), "r"(c.word[6]), "r"(c.word[7]));                                                  \
  }
#define TESSERA_MMA_8_8_4(m, n, k, type, result, first, second, text, types)                        \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, m, n, k, result> &d,                                                  \
      const fragment<matrix_a, m, n, k, type, first##_major> &a,                                  \
      const fragment<matrix_b, m, n, k, type, second##_major> &b,                                 \
      const fragment<accumulator, m, n, k, result> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second "." text types " "           \
                         "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15, %16, %17, %18, %19}, {%20, %21, %22, %23};" \
                         : "=r"(d.word[0]), "=r"(d.word[1]), "=r"(d.word[2]), "=r"(d.word[3])                                                          \
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(a.word[4]), "r"(a.word[5]), "r"(a.word[6]), "r"(a.word[7]), "r"(b.word[0]), "r"(b.word[1]), "r"(b.word[2]), "r"(b.word[3]), "r"(b.word[4]), "r"(b.word[5]), "r"(b.word[6]), "r"(b.word[7]),                              \
                           "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]), "r"(c.word[3]));                                                  \
  }
#define TESSERA_MMA_4_4_8(m, n, k, type, result, first, second, text, types)                        \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, m, n, k, result> &d,                                                  \
      const fragment<matrix_a, m, n, k, type, first##_major> &a,                                  \
      const fragment<matrix_b, m, n, k, type, second##_major> &b,                                 \
      const fragment<accumulator, m, n, k, result> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second "." text types " "           \
                         "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23};" \
                         : "=r"(d.word[0]), "=r"(d.word[1]), "=r"(d.word[2]), "=r"(d.word[3]), "=r"(d.word[4]), "=r"(d.word[5]), "=r"(d.word[6]), "=r"(d.word[7])                                                          \
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]), "r"(b.word[2]), "r"(b.word[3]),                              \
                           "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]), "r"(c.word[3]), "r"(c.word[4]), "r"(c.word[5]), "r"(c.word[6]), "r"(c.word[7]));                                                  \
  }
#define TESSERA_MMA_8_2_8(m, n, k, type, result, first, second, text, types)                        \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, m, n, k, result> &d,                                                  \
      const fragment<matrix_a, m, n, k, type, first##_major> &a,                                  \
      const fragment<matrix_b, m, n, k, type, second##_major> &b,                                 \
      const fragment<accumulator, m, n, k, result> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second "." text types " "           \
                         "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17}, {%18, %19, %20, %21, %22, %23, %24, %25};" \
                         : "=r"(d.word[0]), "=r"(d.word[1]), "=r"(d.word[2]), "=r"(d.word[3]), "=r"(d.word[4]), "=r"(d.word[5]), "=r"(d.word[6]), "=r"(d.word[7])                                                          \
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(a.word[4]), "r"(a.word[5]), "r"(a.word[6]), "r"(a.word[7]), "r"(b.word[0]), "r"(b.word[1]),                              \
                           "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]), "r"(c.word[3]), "r"(c.word[4]), "r"(c.word[5]), "r"(c.word[6]), "r"(c.word[7]));                                                  \
  }
#define TESSERA_MMA_2_8_8(m, n, k, type, result, first, second, text, types)                        \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, m, n, k, result> &d,                                                  \
      const fragment<matrix_a, m, n, k, type, first##_major> &a,                                  \
      const fragment<matrix_b, m, n, k, type, second##_major> &b,                                 \
      const fragment<accumulator, m, n, k, result> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second "." text types " "           \
                         "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13, %14, %15, %16, %17}, {%18, %19, %20, %21, %22, %23, %24, %25};" \
                         : "=r"(d.word[0]), "=r"(d.word[1]), "=r"(d.word[2]), "=r"(d.word[3]), "=r"(d.word[4]), "=r"(d.word[5]), "=r"(d.word[6]), "=r"(d.word[7])                                                          \
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(b.word[0]), "r"(b.word[1]), "r"(b.word[2]), "r"(b.word[3]), "r"(b.word[4]), "r"(b.word[5]), "r"(b.word[6]), "r"(b.word[7]),                              \
                           "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]), "r"(c.word[3]), "r"(c.word[4]), "r"(c.word[5]), "r"(c.word[6]), "r"(c.word[7]));                                                  \
  }
#define TESSERA_MMA_2_2_8(m, n, k, type, result, first, second, text, types)                        \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, m, n, k, result> &d,                                                  \
      const fragment<matrix_a, m, n, k, type, first##_major> &a,                                  \
      const fragment<matrix_b, m, n, k, type, second##_major> &b,                                 \
      const fragment<accumulator, m, n, k, result> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second "." text types " "           \
                         "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%12, %13, %14, %15, %16, %17, %18, %19};" \
                         : "=r"(d.word[0]), "=r"(d.word[1]), "=r"(d.word[2]), "=r"(d.word[3]), "=r"(d.word[4]), "=r"(d.word[5]), "=r"(d.word[6]), "=r"(d.word[7])                                                          \
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(b.word[0]), "r"(b.word[1]),                              \
                           "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]), "r"(c.word[3]), "r"(c.word[4]), "r"(c.word[5]), "r"(c.word[6]), "r"(c.word[7]));                                                  \
  }
#define TESSERA_MMA_4_1_8(m, n, k, type, result, first, second, text, types)                        \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, m, n, k, result> &d,                                                  \
      const fragment<matrix_a, m, n, k, type, first##_major> &a,                                  \
      const fragment<matrix_b, m, n, k, type, second##_major> &b,                                 \
      const fragment<accumulator, m, n, k, result> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second "." text types " "           \
                         "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, {%12}, {%13, %14, %15, %16, %17, %18, %19, %20};" \
                         : "=r"(d.word[0]), "=r"(d.word[1]), "=r"(d.word[2]), "=r"(d.word[3]), "=r"(d.word[4]), "=r"(d.word[5]), "=r"(d.word[6]), "=r"(d.word[7])                                                          \
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]),                              \
                           "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]), "r"(c.word[3]), "r"(c.word[4]), "r"(c.word[5]), "r"(c.word[6]), "r"(c.word[7]));                                                  \
  }
#define TESSERA_MMA_1_4_8(m, n, k, type, result, first, second, text, types)                        \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, m, n, k, result> &d,                                                  \
      const fragment<matrix_a, m, n, k, type, first##_major> &a,                                  \
      const fragment<matrix_b, m, n, k, type, second##_major> &b,                                 \
      const fragment<accumulator, m, n, k, result> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second "." text types " "           \
                         "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8}, {%9, %10, %11, %12}, {%13, %14, %15, %16, %17, %18, %19, %20};" \
                         : "=r"(d.word[0]), "=r"(d.word[1]), "=r"(d.word[2]), "=r"(d.word[3]), "=r"(d.word[4]), "=r"(d.word[5]), "=r"(d.word[6]), "=r"(d.word[7])                                                          \
                         : "r"(a.word[0]), "r"(b.word[0]), "r"(b.word[1]), "r"(b.word[2]), "r"(b.word[3]),                              \
                           "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]), "r"(c.word[3]), "r"(c.word[4]), "r"(c.word[5]), "r"(c.word[6]), "r"(c.word[7]));                                                  \
  }
TESSERA_WORDS(accumulator, 16, 16, 16, float, 8)
TESSERA_ACCUMULATOR8(16, 16, 16, float, "m16n16k16", "f32")
TESSERA_WORDS(accumulator, 16, 16, 16, __half, 4)
TESSERA_ACCUMULATOR4(16, 16, 16, __half, "m16n16k16", "f16")
TESSERA_WORDS(accumulator, 16, 16, 16, int, 8)
TESSERA_ACCUMULATOR8(16, 16, 16, int, "m16n16k16", "s32")
TESSERA_WORDS(matrix_a, 16, 16, 16, __half, 8)
TESSERA_LOAD8(matrix_a, 16, 16, 16, __half, __half, row, "a.sync.aligned.row.m16n16k16.f16")
TESSERA_LOAD8(matrix_a, 16, 16, 16, __half, __half, col, "a.sync.aligned.col.m16n16k16.f16")
TESSERA_WORDS(matrix_b, 16, 16, 16, __half, 8)
TESSERA_LOAD8(matrix_b, 16, 16, 16, __half, __half, row, "b.sync.aligned.row.m16n16k16.f16")
TESSERA_LOAD8(matrix_b, 16, 16, 16, __half, __half, col, "b.sync.aligned.col.m16n16k16.f16")
TESSERA_WORDS(matrix_a, 16, 16, 16, __nv_bfloat16, 4)
TESSERA_LOAD4(matrix_a, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, row, "a.sync.aligned.row.m16n16k16.bf16")
TESSERA_LOAD4(matrix_a, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, col, "a.sync.aligned.col.m16n16k16.bf16")
TESSERA_WORDS(matrix_b, 16, 16, 16, __nv_bfloat16, 4)
TESSERA_LOAD4(matrix_b, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, row, "b.sync.aligned.row.m16n16k16.bf16")
TESSERA_LOAD4(matrix_b, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, col, "b.sync.aligned.col.m16n16k16.bf16")
TESSERA_WORDS(matrix_a, 16, 16, 16, signed char, 2)
TESSERA_LOAD2(matrix_a, 16, 16, 16, signed char, signed char, row, "a.sync.aligned.row.m16n16k16.s8")
TESSERA_LOAD2(matrix_a, 16, 16, 16, signed char, signed char, col, "a.sync.aligned.col.m16n16k16.s8")
TESSERA_WORDS(matrix_b, 16, 16, 16, signed char, 2)
TESSERA_LOAD2(matrix_b, 16, 16, 16, signed char, signed char, row, "b.sync.aligned.row.m16n16k16.s8")
TESSERA_LOAD2(matrix_b, 16, 16, 16, signed char, signed char, col, "b.sync.aligned.col.m16n16k16.s8")
TESSERA_MMA_2_2_8(16, 16, 16, signed char, int, row, row, "m16n16k16", ".s32.s8.s8.s32")
TESSERA_MMA_2_2_8(16, 16, 16, signed char, int, row, col, "m16n16k16", ".s32.s8.s8.s32")
TESSERA_MMA_2_2_8(16, 16, 16, signed char, int, col, row, "m16n16k16", ".s32.s8.s8.s32")
TESSERA_MMA_2_2_8(16, 16, 16, signed char, int, col, col, "m16n16k16", ".s32.s8.s8.s32")
TESSERA_WORDS(matrix_a, 16, 16, 16, unsigned char, 2)
TESSERA_LOAD2(matrix_a, 16, 16, 16, unsigned char, unsigned char, row, "a.sync.aligned.row.m16n16k16.u8")
TESSERA_LOAD2(matrix_a, 16, 16, 16, unsigned char, unsigned char, col, "a.sync.aligned.col.m16n16k16.u8")
TESSERA_WORDS(matrix_b, 16, 16, 16, unsigned char, 2)
TESSERA_LOAD2(matrix_b, 16, 16, 16, unsigned char, unsigned char, row, "b.sync.aligned.row.m16n16k16.u8")
TESSERA_LOAD2(matrix_b, 16, 16, 16, unsigned char, unsigned char, col, "b.sync.aligned.col.m16n16k16.u8")
TESSERA_MMA_2_2_8(16, 16, 16, unsigned char, int, row, row, "m16n16k16", ".s32.u8.u8.s32")
TESSERA_MMA_2_2_8(16, 16, 16, unsigned char, int, row, col, "m16n16k16", ".s32.u8.u8.s32")
TESSERA_MMA_2_2_8(16, 16, 16, unsigned char, int, col, row, "m16n16k16", ".s32.u8.u8.s32")
TESSERA_MMA_2_2_8(16, 16, 16, unsigned char, int, col, col, "m16n16k16", ".s32.u8.u8.s32")
TESSERA_MMA_8_8_8(16, 16, 16, __half, float, row, row, "m16n16k16", ".f32.f32")
TESSERA_MMA_8_8_8(16, 16, 16, __half, float, row, col, "m16n16k16", ".f32.f32")
TESSERA_MMA_8_8_8(16, 16, 16, __half, float, col, row, "m16n16k16", ".f32.f32")
TESSERA_MMA_8_8_8(16, 16, 16, __half, float, col, col, "m16n16k16", ".f32.f32")
TESSERA_MMA_8_8_4(16, 16, 16, __half, __half, row, row, "m16n16k16", ".f16.f16")
TESSERA_MMA_8_8_4(16, 16, 16, __half, __half, row, col, "m16n16k16", ".f16.f16")
TESSERA_MMA_8_8_4(16, 16, 16, __half, __half, col, row, "m16n16k16", ".f16.f16")
TESSERA_MMA_8_8_4(16, 16, 16, __half, __half, col, col, "m16n16k16", ".f16.f16")
TESSERA_MMA_4_4_8(16, 16, 16, __nv_bfloat16, float, row, row, "m16n16k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_4_4_8(16, 16, 16, __nv_bfloat16, float, row, col, "m16n16k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_4_4_8(16, 16, 16, __nv_bfloat16, float, col, row, "m16n16k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_4_4_8(16, 16, 16, __nv_bfloat16, float, col, col, "m16n16k16", ".f32.bf16.bf16.f32")
TESSERA_WORDS(accumulator, 32, 8, 16, float, 8)
TESSERA_ACCUMULATOR8(32, 8, 16, float, "m32n8k16", "f32")
TESSERA_WORDS(accumulator, 32, 8, 16, __half, 4)
TESSERA_ACCUMULATOR4(32, 8, 16, __half, "m32n8k16", "f16")
TESSERA_WORDS(accumulator, 32, 8, 16, int, 8)
TESSERA_ACCUMULATOR8(32, 8, 16, int, "m32n8k16", "s32")
TESSERA_WORDS(matrix_a, 32, 8, 16, __half, 8)
TESSERA_LOAD8(matrix_a, 32, 8, 16, __half, __half, row, "a.sync.aligned.row.m32n8k16.f16")
TESSERA_LOAD8(matrix_a, 32, 8, 16, __half, __half, col, "a.sync.aligned.col.m32n8k16.f16")
TESSERA_WORDS(matrix_b, 32, 8, 16, __half, 8)
TESSERA_LOAD8(matrix_b, 32, 8, 16, __half, __half, row, "b.sync.aligned.row.m32n8k16.f16")
TESSERA_LOAD8(matrix_b, 32, 8, 16, __half, __half, col, "b.sync.aligned.col.m32n8k16.f16")
TESSERA_WORDS(matrix_a, 32, 8, 16, __nv_bfloat16, 8)
TESSERA_LOAD8(matrix_a, 32, 8, 16, __nv_bfloat16, __nv_bfloat16, row, "a.sync.aligned.row.m32n8k16.bf16")
TESSERA_LOAD8(matrix_a, 32, 8, 16, __nv_bfloat16, __nv_bfloat16, col, "a.sync.aligned.col.m32n8k16.bf16")
TESSERA_WORDS(matrix_b, 32, 8, 16, __nv_bfloat16, 2)
TESSERA_LOAD2(matrix_b, 32, 8, 16, __nv_bfloat16, __nv_bfloat16, row, "b.sync.aligned.row.m32n8k16.bf16")
TESSERA_LOAD2(matrix_b, 32, 8, 16, __nv_bfloat16, __nv_bfloat16, col, "b.sync.aligned.col.m32n8k16.bf16")
TESSERA_WORDS(matrix_a, 32, 8, 16, signed char, 4)
TESSERA_LOAD4(matrix_a, 32, 8, 16, signed char, signed char, row, "a.sync.aligned.row.m32n8k16.s8")
TESSERA_LOAD4(matrix_a, 32, 8, 16, signed char, signed char, col, "a.sync.aligned.col.m32n8k16.s8")
TESSERA_WORDS(matrix_b, 32, 8, 16, signed char, 1)
TESSERA_LOAD1(matrix_b, 32, 8, 16, signed char, signed char, row, "b.sync.aligned.row.m32n8k16.s8")
TESSERA_LOAD1(matrix_b, 32, 8, 16, signed char, signed char, col, "b.sync.aligned.col.m32n8k16.s8")
TESSERA_MMA_4_1_8(32, 8, 16, signed char, int, row, row, "m32n8k16", ".s32.s8.s8.s32")
TESSERA_MMA_4_1_8(32, 8, 16, signed char, int, row, col, "m32n8k16", ".s32.s8.s8.s32")
TESSERA_MMA_4_1_8(32, 8, 16, signed char, int, col, row, "m32n8k16", ".s32.s8.s8.s32")
TESSERA_MMA_4_1_8(32, 8, 16, signed char, int, col, col, "m32n8k16", ".s32.s8.s8.s32")
TESSERA_WORDS(matrix_a, 32, 8, 16, unsigned char, 4)
TESSERA_LOAD4(matrix_a, 32, 8, 16, unsigned char, unsigned char, row, "a.sync.aligned.row.m32n8k16.u8")
TESSERA_LOAD4(matrix_a, 32, 8, 16, unsigned char, unsigned char, col, "a.sync.aligned.col.m32n8k16.u8")
TESSERA_WORDS(matrix_b, 32, 8, 16, unsigned char, 1)
TESSERA_LOAD1(matrix_b, 32, 8, 16, unsigned char, unsigned char, row, "b.sync.aligned.row.m32n8k16.u8")
TESSERA_LOAD1(matrix_b, 32, 8, 16, unsigned char, unsigned char, col, "b.sync.aligned.col.m32n8k16.u8")
TESSERA_MMA_4_1_8(32, 8, 16, unsigned char, int, row, row, "m32n8k16", ".s32.u8.u8.s32")
TESSERA_MMA_4_1_8(32, 8, 16, unsigned char, int, row, col, "m32n8k16", ".s32.u8.u8.s32")
TESSERA_MMA_4_1_8(32, 8, 16, unsigned char, int, col, row, "m32n8k16", ".s32.u8.u8.s32")
TESSERA_MMA_4_1_8(32, 8, 16, unsigned char, int, col, col, "m32n8k16", ".s32.u8.u8.s32")
TESSERA_MMA_8_8_8(32, 8, 16, __half, float, row, row, "m32n8k16", ".f32.f32")
TESSERA_MMA_8_8_8(32, 8, 16, __half, float, row, col, "m32n8k16", ".f32.f32")
TESSERA_MMA_8_8_8(32, 8, 16, __half, float, col, row, "m32n8k16", ".f32.f32")
TESSERA_MMA_8_8_8(32, 8, 16, __half, float, col, col, "m32n8k16", ".f32.f32")
TESSERA_MMA_8_8_4(32, 8, 16, __half, __half, row, row, "m32n8k16", ".f16.f16")
TESSERA_MMA_8_8_4(32, 8, 16, __half, __half, row, col, "m32n8k16", ".f16.f16")
TESSERA_MMA_8_8_4(32, 8, 16, __half, __half, col, row, "m32n8k16", ".f16.f16")
TESSERA_MMA_8_8_4(32, 8, 16, __half, __half, col, col, "m32n8k16", ".f16.f16")
TESSERA_MMA_8_2_8(32, 8, 16, __nv_bfloat16, float, row, row, "m32n8k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_8_2_8(32, 8, 16, __nv_bfloat16, float, row, col, "m32n8k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_8_2_8(32, 8, 16, __nv_bfloat16, float, col, row, "m32n8k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_8_2_8(32, 8, 16, __nv_bfloat16, float, col, col, "m32n8k16", ".f32.bf16.bf16.f32")
TESSERA_WORDS(accumulator, 8, 32, 16, float, 8)
TESSERA_ACCUMULATOR8(8, 32, 16, float, "m8n32k16", "f32")
TESSERA_WORDS(accumulator, 8, 32, 16, __half, 4)
TESSERA_ACCUMULATOR4(8, 32, 16, __half, "m8n32k16", "f16")
TESSERA_WORDS(accumulator, 8, 32, 16, int, 8)
TESSERA_ACCUMULATOR8(8, 32, 16, int, "m8n32k16", "s32")
TESSERA_WORDS(matrix_a, 8, 32, 16, __half, 8)
TESSERA_LOAD8(matrix_a, 8, 32, 16, __half, __half, row, "a.sync.aligned.row.m8n32k16.f16")
TESSERA_LOAD8(matrix_a, 8, 32, 16, __half, __half, col, "a.sync.aligned.col.m8n32k16.f16")
TESSERA_WORDS(matrix_b, 8, 32, 16, __half, 8)
TESSERA_LOAD8(matrix_b, 8, 32, 16, __half, __half, row, "b.sync.aligned.row.m8n32k16.f16")
TESSERA_LOAD8(matrix_b, 8, 32, 16, __half, __half, col, "b.sync.aligned.col.m8n32k16.f16")
TESSERA_WORDS(matrix_a, 8, 32, 16, __nv_bfloat16, 2)
TESSERA_LOAD2(matrix_a, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, row, "a.sync.aligned.row.m8n32k16.bf16")
TESSERA_LOAD2(matrix_a, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, col, "a.sync.aligned.col.m8n32k16.bf16")
TESSERA_WORDS(matrix_b, 8, 32, 16, __nv_bfloat16, 8)
TESSERA_LOAD8(matrix_b, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, row, "b.sync.aligned.row.m8n32k16.bf16")
TESSERA_LOAD8(matrix_b, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, col, "b.sync.aligned.col.m8n32k16.bf16")
TESSERA_WORDS(matrix_a, 8, 32, 16, signed char, 1)
TESSERA_LOAD1(matrix_a, 8, 32, 16, signed char, signed char, row, "a.sync.aligned.row.m8n32k16.s8")
TESSERA_LOAD1(matrix_a, 8, 32, 16, signed char, signed char, col, "a.sync.aligned.col.m8n32k16.s8")
TESSERA_WORDS(matrix_b, 8, 32, 16, signed char, 4)
TESSERA_LOAD4(matrix_b, 8, 32, 16, signed char, signed char, row, "b.sync.aligned.row.m8n32k16.s8")
TESSERA_LOAD4(matrix_b, 8, 32, 16, signed char, signed char, col, "b.sync.aligned.col.m8n32k16.s8")
TESSERA_MMA_1_4_8(8, 32, 16, signed char, int, row, row, "m8n32k16", ".s32.s8.s8.s32")
TESSERA_MMA_1_4_8(8, 32, 16, signed char, int, row, col, "m8n32k16", ".s32.s8.s8.s32")
TESSERA_MMA_1_4_8(8, 32, 16, signed char, int, col, row, "m8n32k16", ".s32.s8.s8.s32")
TESSERA_MMA_1_4_8(8, 32, 16, signed char, int, col, col, "m8n32k16", ".s32.s8.s8.s32")
TESSERA_WORDS(matrix_a, 8, 32, 16, unsigned char, 1)
TESSERA_LOAD1(matrix_a, 8, 32, 16, unsigned char, unsigned char, row, "a.sync.aligned.row.m8n32k16.u8")
TESSERA_LOAD1(matrix_a, 8, 32, 16, unsigned char, unsigned char, col, "a.sync.aligned.col.m8n32k16.u8")
TESSERA_WORDS(matrix_b, 8, 32, 16, unsigned char, 4)
TESSERA_LOAD4(matrix_b, 8, 32, 16, unsigned char, unsigned char, row, "b.sync.aligned.row.m8n32k16.u8")
TESSERA_LOAD4(matrix_b, 8, 32, 16, unsigned char, unsigned char, col, "b.sync.aligned.col.m8n32k16.u8")
TESSERA_MMA_1_4_8(8, 32, 16, unsigned char, int, row, row, "m8n32k16", ".s32.u8.u8.s32")
TESSERA_MMA_1_4_8(8, 32, 16, unsigned char, int, row, col, "m8n32k16", ".s32.u8.u8.s32")
TESSERA_MMA_1_4_8(8, 32, 16, unsigned char, int, col, row, "m8n32k16", ".s32.u8.u8.s32")
TESSERA_MMA_1_4_8(8, 32, 16, unsigned char, int, col, col, "m8n32k16", ".s32.u8.u8.s32")
TESSERA_MMA_8_8_8(8, 32, 16, __half, float, row, row, "m8n32k16", ".f32.f32")
TESSERA_MMA_8_8_8(8, 32, 16, __half, float, row, col, "m8n32k16", ".f32.f32")
TESSERA_MMA_8_8_8(8, 32, 16, __half, float, col, row, "m8n32k16", ".f32.f32")
TESSERA_MMA_8_8_8(8, 32, 16, __half, float, col, col, "m8n32k16", ".f32.f32")
TESSERA_MMA_8_8_4(8, 32, 16, __half, __half, row, row, "m8n32k16", ".f16.f16")
TESSERA_MMA_8_8_4(8, 32, 16, __half, __half, row, col, "m8n32k16", ".f16.f16")
TESSERA_MMA_8_8_4(8, 32, 16, __half, __half, col, row, "m8n32k16", ".f16.f16")
TESSERA_MMA_8_8_4(8, 32, 16, __half, __half, col, col, "m8n32k16", ".f16.f16")
TESSERA_MMA_2_8_8(8, 32, 16, __nv_bfloat16, float, row, row, "m8n32k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_2_8_8(8, 32, 16, __nv_bfloat16, float, row, col, "m8n32k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_2_8_8(8, 32, 16, __nv_bfloat16, float, col, row, "m8n32k16", ".f32.bf16.bf16.f32")
TESSERA_MMA_2_8_8(8, 32, 16, __nv_bfloat16, float, col, col, "m8n32k16", ".f32.bf16.bf16.f32")
TESSERA_WORDS(accumulator, 16, 16, 8, float, 8)
TESSERA_ACCUMULATOR8(16, 16, 8, float, "m16n16k8", "f32")
TESSERA_WORDS(matrix_a, 16, 16, 8, precision::tf32, 4)
TESSERA_LOAD4(matrix_a, 16, 16, 8, precision::tf32, float, row, "a.sync.aligned.row.m16n16k8.tf32")
TESSERA_LOAD4(matrix_a, 16, 16, 8, precision::tf32, float, col, "a.sync.aligned.col.m16n16k8.tf32")
TESSERA_WORDS(matrix_b, 16, 16, 8, precision::tf32, 4)
TESSERA_LOAD4(matrix_b, 16, 16, 8, precision::tf32, float, row, "b.sync.aligned.row.m16n16k8.tf32")
TESSERA_LOAD4(matrix_b, 16, 16, 8, precision::tf32, float, col, "b.sync.aligned.col.m16n16k8.tf32")
TESSERA_MMA_4_4_8(16, 16, 8, precision::tf32, float, row, row, "m16n16k8", ".f32.tf32.tf32.f32")
TESSERA_MMA_4_4_8(16, 16, 8, precision::tf32, float, row, col, "m16n16k8", ".f32.tf32.tf32.f32")
TESSERA_MMA_4_4_8(16, 16, 8, precision::tf32, float, col, row, "m16n16k8", ".f32.tf32.tf32.f32")
TESSERA_MMA_4_4_8(16, 16, 8, precision::tf32, float, col, col, "m16n16k8", ".f32.tf32.tf32.f32")

#include "tessera/double_tiles.h"

}  // namespace wmma
}  // namespace nvcuda
#endif

#endif
