/* nvcuda::wmma for double precision: m8n8k4. mma.h includes it within its namespaces. */
namespace details {
template <>
struct registers<matrix_a, 8, 8, 4, double> {
  static constexpr int words = 2;
};
template <>
struct registers<matrix_b, 8, 8, 4, double> {
  static constexpr int words = 2;
};
template <>
struct registers<accumulator, 8, 8, 4, double> {
  static constexpr int words = 4;
};
}  // namespace details

#define TESSERA_LOAD_DOUBLE(use, letter, layout)                                                \
  static __device__ __forceinline__ void load_matrix_sync(                                      \
      fragment<use, 8, 8, 4, double, layout##_major> &f, const double *p, unsigned int stride) { \
    __asm__ __volatile__("wmma.load." letter ".sync.aligned." #layout                           \
                         ".m8n8k4.f64 {%0}, [%1], %2;"                                          \
                         : "=d"(f.x[0]) : "l"(p), "r"(stride) : "memory");                      \
  }
TESSERA_LOAD_DOUBLE(matrix_a, "a", row)
TESSERA_LOAD_DOUBLE(matrix_a, "a", col)
TESSERA_LOAD_DOUBLE(matrix_b, "b", row)
TESSERA_LOAD_DOUBLE(matrix_b, "b", col)
#undef TESSERA_LOAD_DOUBLE

static __device__ __forceinline__ void load_matrix_sync(fragment<accumulator, 8, 8, 4, double> &f,
                                                        const double *p, unsigned int stride,
                                                        layout_t layout) {
  if (layout == mem_row_major) {
    __asm__ __volatile__("wmma.load.c.sync.aligned.row.m8n8k4.f64 {%0, %1}, [%2], %3;"
                         : "=d"(f.x[0]), "=d"(f.x[1]) : "l"(p), "r"(stride) : "memory");
  } else {
    __asm__ __volatile__("wmma.load.c.sync.aligned.col.m8n8k4.f64 {%0, %1}, [%2], %3;"
                         : "=d"(f.x[0]), "=d"(f.x[1]) : "l"(p), "r"(stride) : "memory");
  }
}
static __device__ __forceinline__ void store_matrix_sync(
    double *p, const fragment<accumulator, 8, 8, 4, double> &f, unsigned int stride,
    layout_t layout) {
  if (layout == mem_row_major) {
    __asm__ __volatile__("wmma.store.d.sync.aligned.row.m8n8k4.f64 [%0], {%1, %2}, %3;"
                         :: "l"(p), "d"(f.x[0]), "d"(f.x[1]), "r"(stride) : "memory");
  } else {
    __asm__ __volatile__("wmma.store.d.sync.aligned.col.m8n8k4.f64 [%0], {%1, %2}, %3;"
                         :: "l"(p), "d"(f.x[0]), "d"(f.x[1]), "r"(stride) : "memory");
  }
}

#define TESSERA_MMA_DOUBLE(first, second)                                                         \
  static __device__ __forceinline__ void mma_sync(                                                \
      fragment<accumulator, 8, 8, 4, double> &d,                                                  \
      const fragment<matrix_a, 8, 8, 4, double, first##_major> &a,                                \
      const fragment<matrix_b, 8, 8, 4, double, second##_major> &b,                               \
      const fragment<accumulator, 8, 8, 4, double> &c) {                                          \
    __asm__ __volatile__("wmma.mma.sync.aligned." #first "." #second                              \
                         ".m8n8k4.rn.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"             \
                         : "=d"(d.x[0]), "=d"(d.x[1])                                             \
                         : "d"(a.x[0]), "d"(b.x[0]), "d"(c.x[0]), "d"(c.x[1]));                   \
  }
TESSERA_MMA_DOUBLE(row, row)
TESSERA_MMA_DOUBLE(row, col)
TESSERA_MMA_DOUBLE(col, row)
TESSERA_MMA_DOUBLE(col, col)
#undef TESSERA_MMA_DOUBLE
