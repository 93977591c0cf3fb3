/* Matrix products: the functions of the interface, whose matrices are stored by columns. */
#include "gemm.h"

#include "api.h"
#include "unsupported.h"

enum { OP_N = 0, OP_C = 2 };
/* cublasComputeType_t */
enum { COMPUTE_16F = 64, COMPUTE_16F_PEDANTIC = 65, COMPUTE_32F = 68, COMPUTE_32F_PEDANTIC = 69,
       COMPUTE_64F = 70, COMPUTE_64F_PEDANTIC = 71, COMPUTE_32F_FAST_FIRST = 74,
       COMPUTE_32F_FAST_LAST = 77 };

struct operand {
  const void *address;
  int type, operation, leading;
  long long stride;
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

/* Return a factor of so many rows and columns, stored as it is or transposed. */
static struct tsr_matrix matrix_of(const struct operand *one) {
  const bool is_plain = one->operation == OP_N;
  return (struct tsr_matrix){
      .address = (uint64_t)(uintptr_t)one->address,
      .type = one->type,
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
                               struct operand c, int batches, int scale) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || batches < 0 || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_valid(&a, m, k) || !is_valid(&b, k, n) || !is_valid(&c, m, n))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0 || batches == 0) return CUBLAS_STATUS_SUCCESS;
  const struct tsr_gemm gemm = {
      .m = m, .n = n, .k = k, .batches = batches,
      .a = matrix_of(&a), .b = matrix_of(&b), .c = matrix_of(&c),
      .scale = scale, .alpha = alpha, .beta = beta,
  };
  return tsr_gemm_is_known(&gemm) ? tsr_gemm_launch(blas, &gemm) : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Return the type of the scales for a type of computation, or -1. */
static int scale_of(int compute) {
  switch (compute) {
    case COMPUTE_16F:
    case COMPUTE_16F_PEDANTIC: return TSR_F16;
    case COMPUTE_64F:
    case COMPUTE_64F_PEDANTIC: return TSR_F64;
    case COMPUTE_32F:
    case COMPUTE_32F_PEDANTIC: return TSR_F32;
    default:
      return compute >= COMPUTE_32F_FAST_FIRST && compute <= COMPUTE_32F_FAST_LAST ? TSR_F32 : -1;
  }
}

/* Multiply, and name what the types of the operands or of the computation refuse. */
static cublasStatus_t multiply_types(struct refusals *refusals, cublasHandle_t handle, int m, int n,
                                     int k, const void *alpha, struct operand a, struct operand b,
                                     const void *beta, struct operand c, int batches, int compute) {
  if (scale_of(compute) < 0) return refuse(refusals->compute, &refusals->said_compute);
  const cublasStatus_t status =
      multiply(handle, m, n, k, alpha, a, b, beta, c, batches, scale_of(compute));
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
                        (struct operand){C, Ctype, OP_N, ldc, strideC}, batchCount, computeType);
}

cublasStatus_t tsr_cublasGemmEx(cublasHandle_t handle, int transa, int transb, int m, int n, int k,
                                const void *alpha, const void *A, int Atype, int lda, const void *B,
                                int Btype, int ldb, const void *beta, void *C, int Ctype, int ldc,
                                int computeType, int algo) {
  static struct refusals refusals = REFUSALS("cublasGemmEx");
  (void)algo;
  return multiply_types(&refusals, handle, m, n, k, alpha, (struct operand){A, Atype, transa, lda, 0},
                        (struct operand){B, Btype, transb, ldb, 0}, beta,
                        (struct operand){C, Ctype, OP_N, ldc, 0}, 1, computeType);
}

/* The functions of one type: plain and in batches at a stride. */
#define PRODUCTS(letter, plain, type, number)                                                              \
  cublasStatus_t tsr_cublas##letter##gemmStridedBatched(                                                   \
      cublasHandle_t handle, int transa, int transb, int m, int n, int k, const type *alpha,               \
      const type *A, int lda, long long strideA, const type *B, int ldb, long long strideB,                \
      const type *beta, type *C, int ldc, long long strideC, int batchCount) {                             \
    return multiply(handle, m, n, k, alpha, (struct operand){A, number, transa, lda, strideA},             \
                    (struct operand){B, number, transb, ldb, strideB}, beta,                               \
                    (struct operand){C, number, OP_N, ldc, strideC}, batchCount, number);                  \
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
