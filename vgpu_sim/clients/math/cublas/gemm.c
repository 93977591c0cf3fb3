/* Matrix products: the functions of the interface, whose matrices are stored by columns. */
#include "api.h"
#include "compute.h"
#include "handle.h"
#include "unsupported.h"

enum { OP_N = 0, OP_C = 2, SINGLE_PRECISION = 68 /* CUBLAS_COMPUTE_32F */ };

/* A matrix as the functions receive it, or an array of matrices' addresses. */
struct operand {
  const void *address;
  int type, operation, leading;
  long long stride;
};

/* The number of a product's matrices, and whether their addresses are in arrays. */
struct batches {
  int count;
  bool are_arrays;
};

/* What a function with types as arguments refuses, each said once. */
struct refusals {
  const char *compute, *types;
  uint32_t said_compute, said_types;
};
#define REFUSALS(function)                                                                                 \
  {function " with a computeType other than 16F, 32F and 64F",                                             \
   function " with types of A, B, C and scale that are not all float, all double, or halves (f16, bf16)"   \
            " with sums in single precision", 0, 0}

static cublasStatus_t refuse(const char *what, uint32_t *said) {
  tsr_unsupported(what, "CUBLAS_STATUS_NOT_SUPPORTED", said);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Return a matrix, stored as it is or transposed. */
static struct tsr_matrix matrix_of(const struct operand *one) {
  const bool is_plain = one->operation == OP_N;
  return (struct tsr_matrix){
      .address = (uint64_t)(uintptr_t)one->address,
      .row = is_plain ? 1 : one->leading,
      .column = is_plain ? one->leading : 1,
      .batch = one->stride,
  };
}

static bool is_valid(const struct operand *one, int rows, int columns) {
  const int stored = one->operation == OP_N ? rows : columns;
  return one->operation >= OP_N && one->operation <= OP_C && one->leading >= (stored > 1 ? stored : 1);
}

static cublasStatus_t multiply(cublasHandle_t handle, int m, int n, int k, const void *alpha,
                               struct operand a, struct operand b, const void *beta,
                               struct operand c, struct batches batches, int scale) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || batches.count < 0 || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_valid(&a, m, k) || !is_valid(&b, k, n) || !is_valid(&c, m, n))
    return CUBLAS_STATUS_INVALID_VALUE;
  const struct tsr_product_types types = {a.type, c.type, scale};
  if (a.type != b.type || !tsr_product_is_known(types)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const struct tsr_product product = {
      .m = (uint32_t)m, .n = (uint32_t)n, .k = (uint32_t)k, .batches = (uint32_t)batches.count,
      .a = matrix_of(&a), .b = matrix_of(&b), .c = matrix_of(&c), .d = matrix_of(&c),
      .alpha = tsr_blas_scale(blas, alpha, scale), .beta = tsr_blas_scale(blas, beta, scale),
      .flags = batches.are_arrays ? TSR_ARRAYS : 0,
  };
  return tsr_blas_multiply(blas, &product, types);
}

/* Multiply, and name what the types of the operands or of the computation refuse. */
static cublasStatus_t multiply_types(struct refusals *refusals, cublasHandle_t handle, int m, int n,
                                     int k, const void *alpha, struct operand a, struct operand b,
                                     const void *beta, struct operand c, struct batches batches,
                                     int compute) {
  const int scale = tsr_scale_type_of(compute);
  if (scale < 0) return refuse(refusals->compute, &refusals->said_compute);
  const cublasStatus_t status = multiply(handle, m, n, k, alpha, a, b, beta, c, batches, scale);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) return status;
  return refuse(refusals->types, &refusals->said_types);
}

/* `algo` is a hint. */
cublasStatus_t tsr_cublasGemmStridedBatchedEx(cublasHandle_t handle, int transa, int transb, int m, int n,
                                              int k, const void *alpha, const void *A, int Atype, int lda,
                                              long long strideA, const void *B, int Btype, int ldb,
                                              long long strideB, const void *beta, void *C, int Ctype,
                                              int ldc, long long strideC, int batchCount,
                                              int computeType, int algo) {
  static struct refusals refusals = REFUSALS("cublasGemmStridedBatchedEx");
  (void)algo;
  return multiply_types(&refusals, handle, m, n, k, alpha,
                        (struct operand){A, Atype, transa, lda, strideA},
                        (struct operand){B, Btype, transb, ldb, strideB}, beta,
                        (struct operand){C, Ctype, OP_N, ldc, strideC},
                        (struct batches){batchCount, false}, computeType);
}

cublasStatus_t tsr_cublasGemmBatchedEx(cublasHandle_t handle, int transa, int transb, int m, int n, int k,
                                       const void *alpha, const void *const *Aarray, int Atype, int lda,
                                       const void *const *Barray, int Btype, int ldb, const void *beta,
                                       void *const *Carray, int Ctype, int ldc, int batchCount,
                                       int computeType, int algo) {
  static struct refusals refusals = REFUSALS("cublasGemmBatchedEx");
  (void)algo;
  return multiply_types(&refusals, handle, m, n, k, alpha, (struct operand){Aarray, Atype, transa, lda, 0},
                        (struct operand){Barray, Btype, transb, ldb, 0}, beta,
                        (struct operand){Carray, Ctype, OP_N, ldc, 0}, (struct batches){batchCount, true},
                        computeType);
}

cublasStatus_t tsr_cublasGemmEx(cublasHandle_t handle, int transa, int transb, int m, int n, int k,
                                const void *alpha, const void *A, int Atype, int lda, const void *B,
                                int Btype, int ldb, const void *beta, void *C, int Ctype, int ldc,
                                int computeType, int algo) {
  static struct refusals refusals = REFUSALS("cublasGemmEx");
  (void)algo;
  return multiply_types(&refusals, handle, m, n, k, alpha, (struct operand){A, Atype, transa, lda, 0},
                        (struct operand){B, Btype, transb, ldb, 0}, beta,
                        (struct operand){C, Ctype, OP_N, ldc, 0}, (struct batches){1, false}, computeType);
}

/* Sums in single precision of floats or halves. */
cublasStatus_t tsr_cublasSgemmEx(cublasHandle_t handle, int transa, int transb, int m, int n, int k,
                                 const float *alpha, const void *A, int Atype, int lda, const void *B,
                                 int Btype, int ldb, const float *beta, void *C, int Ctype, int ldc) {
  static struct refusals refusals = REFUSALS("cublasSgemmEx");
  return multiply_types(&refusals, handle, m, n, k, alpha, (struct operand){A, Atype, transa, lda, 0},
                        (struct operand){B, Btype, transb, ldb, 0}, beta,
                        (struct operand){C, Ctype, OP_N, ldc, 0}, (struct batches){1, false},
                        SINGLE_PRECISION);
}

/* The functions of one type: plain, in batches at a stride, and in batches of any addresses. */
#define PRODUCTS(letter, plain, type, number)                                                              \
  cublasStatus_t tsr_cublas##letter##gemmStridedBatched(                                                   \
      cublasHandle_t handle, int transa, int transb, int m, int n, int k, const type *alpha,               \
      const type *A, int lda, long long strideA, const type *B, int ldb, long long strideB,                \
      const type *beta, type *C, int ldc, long long strideC, int batchCount) {                             \
    return multiply(handle, m, n, k, alpha, (struct operand){A, number, transa, lda, strideA},             \
                    (struct operand){B, number, transb, ldb, strideB}, beta,                               \
                    (struct operand){C, number, OP_N, ldc, strideC}, (struct batches){batchCount, false},  \
                    number);                                                                               \
  }                                                                                                        \
  cublasStatus_t tsr_cublas##letter##gemmBatched(                                                          \
      cublasHandle_t handle, int transa, int transb, int m, int n, int k, const type *alpha,               \
      const type *const *Aarray, int lda, const type *const *Barray, int ldb, const type *beta,            \
      type *const *Carray, int ldc, int batchCount) {                                                      \
    return multiply(handle, m, n, k, alpha, (struct operand){Aarray, number, transa, lda, 0},              \
                    (struct operand){Barray, number, transb, ldb, 0}, beta,                                \
                    (struct operand){Carray, number, OP_N, ldc, 0}, (struct batches){batchCount, true},    \
                    number);                                                                               \
  }                                                                                                        \
  cublasStatus_t tsr_cublas##plain(cublasHandle_t handle, int transa, int transb, int m, int n, int k,     \
                                   const type *alpha, const type *A, int lda, const type *B, int ldb,      \
                                   const type *beta, type *C, int ldc) {                                   \
    return tsr_cublas##letter##gemmStridedBatched(handle, transa, transb, m, n, k, alpha, A, lda, 0, B,    \
                                                  ldb, 0, beta, C, ldc, 0, 1);                             \
  }
PRODUCTS(S, Sgemm_v2, float, TSR_F32)
PRODUCTS(D, Dgemm_v2, double, TSR_F64)
PRODUCTS(H, Hgemm, void, TSR_F16)
