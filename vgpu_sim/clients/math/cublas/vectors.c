/* Vectors, and matrices with vectors: each is a product of a row, a column, or one element. */
#include "api.h"
#include "reduce.h"

enum { OP_N = 0, OP_C = 2, SIDE_LEFT = 0, SIDE_RIGHT = 1 };

static size_t size_of(int type) { return type == TSR_F64 ? sizeof(double) : sizeof(float); }

static const struct tsr_scale one = {0, 1}, zero = {0, 0};

/* Return a vector as a matrix of one column. With a negative increment its first element is the
 * last in memory. */
static struct tsr_matrix vector_of(const void *at, int64_t count, int64_t increment, int type) {
  const int64_t first = increment < 0 ? (1 - count) * increment : 0;
  const uint64_t address = (uint64_t)(uintptr_t)at;
  return (struct tsr_matrix){.address = address ? address + (uint64_t)first * size_of(type) : 0, .row = increment};
}

/* Return the same vector as a matrix of one row. */
static struct tsr_matrix row_of(struct tsr_matrix vector) {
  return (struct tsr_matrix){.address = vector.address, .column = vector.row};
}

/* Return a matrix that is stored by columns, or its transpose. */
static struct tsr_matrix matrix_of(const void *at, int64_t leading, bool is_transposed) {
  return (struct tsr_matrix){
      .address = (uint64_t)(uintptr_t)at,
      .row = is_transposed ? leading : 1,
      .column = is_transposed ? 1 : leading,
  };
}

/* Return the columns of a matrix as a batch, for operations on elements. */
static struct tsr_matrix columns_of(struct tsr_matrix matrix) {
  return (struct tsr_matrix){.address = matrix.address, .row = matrix.row, .batch = matrix.column};
}

static cublasStatus_t multiply(struct tsr_blas *blas, const struct tsr_product *product, int type) {
  return tsr_blas_multiply(blas, product, (struct tsr_product_types){type, type, type});
}

/* Put D = alpha * X + beta * C for vectors into the stream. */
static cublasStatus_t add(struct tsr_blas *blas, int n, struct tsr_scale alpha, struct tsr_matrix x,
                          struct tsr_scale beta, struct tsr_matrix y, uint32_t flags, int type) {
  const struct tsr_product product = {
      .a = x, .c = y, .d = y, .alpha = alpha, .beta = beta, .m = (uint32_t)n, .n = 1, .k = 1,
      .batches = 1, .flags = TSR_UNIT_B | flags,
  };
  return multiply(blas, &product, type);
}

static cublasStatus_t axpy(cublasHandle_t handle, int n, const void *alpha, const void *x, int incx, void *y,
                           int incy, int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (incy == 0) return CUBLAS_STATUS_INVALID_VALUE; /* all sums in one element */
  return add(blas, n, tsr_blas_scale(blas, alpha, type), vector_of(x, n, incx, type), one,
             vector_of(y, n, incy, type), 0, type);
}

static cublasStatus_t scal(cublasHandle_t handle, int n, const void *alpha, void *x, int incx, int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0 || incx <= 0) return CUBLAS_STATUS_SUCCESS;
  const struct tsr_matrix vector = vector_of(x, n, incx, type);
  return add(blas, n, tsr_blas_scale(blas, alpha, type), vector, zero, vector, TSR_ALWAYS, type);
}

static cublasStatus_t copy(cublasHandle_t handle, int n, const void *x, int incx, void *y, int incy,
                           int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (incy == 0) return CUBLAS_STATUS_INVALID_VALUE; /* all copies in one element */
  return add(blas, n, one, vector_of(x, n, incx, type), zero, vector_of(y, n, incy, type), 0, type);
}

static cublasStatus_t put_sum(struct tsr_blas *blas, const void *what, int type, uint64_t result) {
  struct tsr_product product = *(const struct tsr_product *)what;
  product.d.address = result;
  return tsr_blas_multiply(blas, &product, (struct tsr_product_types){type, type, TSR_F64});
}

static cublasStatus_t dot(cublasHandle_t handle, int n, const void *x, int incx, const void *y, int incy,
                          void *result, int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!result) return CUBLAS_STATUS_INVALID_VALUE;
  const int count = n > 0 ? n : 0;
  const struct tsr_product product = {
      .a = row_of(vector_of(x, count, incx, type)), .b = vector_of(y, count, incy, type),
      .alpha = one, .m = 1, .n = 1, .k = (uint32_t)count, .batches = 1,
  };
  return tsr_blas_reduce(blas, put_sum, &product, type, result);
}

static cublasStatus_t gemv(cublasHandle_t handle, int trans, int m, int n, const void *alpha, const void *A,
                           int lda, const void *x, int incx, const void *beta, void *y, int incy, int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (trans < OP_N || trans > OP_C || m < 0 || n < 0 || lda < (m > 1 ? m : 1) || incx == 0 || incy == 0 ||
      !alpha || !beta)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const int rows = trans == OP_N ? m : n, columns = trans == OP_N ? n : m;
  const struct tsr_matrix vector = vector_of(y, rows, incy, type);
  const struct tsr_product product = {
      .a = matrix_of(A, lda, trans != OP_N), .b = vector_of(x, columns, incx, type), .c = vector,
      .d = vector, .alpha = tsr_blas_scale(blas, alpha, type), .beta = tsr_blas_scale(blas, beta, type),
      .m = (uint32_t)rows, .n = 1, .k = (uint32_t)columns, .batches = 1,
  };
  return multiply(blas, &product, type);
}

static cublasStatus_t ger(cublasHandle_t handle, int m, int n, const void *alpha, const void *x, int incx,
                          const void *y, int incy, void *A, int lda, int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || incx == 0 || incy == 0 || lda < (m > 1 ? m : 1) || !alpha)
    return CUBLAS_STATUS_INVALID_VALUE;
  const struct tsr_matrix matrix = matrix_of(A, lda, false);
  const struct tsr_product product = {
      .a = vector_of(x, m, incx, type), .b = row_of(vector_of(y, n, incy, type)), .c = matrix, .d = matrix,
      .alpha = tsr_blas_scale(blas, alpha, type), .beta = one, .m = (uint32_t)m, .n = (uint32_t)n, .k = 1,
      .batches = 1,
  };
  return multiply(blas, &product, type);
}

static cublasStatus_t geam(cublasHandle_t handle, int transa, int transb, int m, int n, const void *alpha,
                           const void *A, int lda, const void *beta, const void *B, int ldb, void *C,
                           int ldc, int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int rows_a = transa == OP_N ? m : n, rows_b = transb == OP_N ? m : n;
  if (transa < OP_N || transa > OP_C || transb < OP_N || transb > OP_C || m < 0 || n < 0 || !alpha || !beta ||
      lda < (rows_a > 1 ? rows_a : 1) || ldb < (rows_b > 1 ? rows_b : 1) || ldc < (m > 1 ? m : 1))
    return CUBLAS_STATUS_INVALID_VALUE;
  if ((C == A && (transa != OP_N || lda != ldc)) || (C == B && (transb != OP_N || ldb != ldc)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const struct tsr_product product = {
      .a = columns_of(matrix_of(A, lda, transa != OP_N)), .c = columns_of(matrix_of(B, ldb, transb != OP_N)),
      .d = columns_of(matrix_of(C, ldc, false)), .alpha = tsr_blas_scale(blas, alpha, type),
      .beta = tsr_blas_scale(blas, beta, type), .m = (uint32_t)m, .n = 1, .k = 1, .batches = (uint32_t)n,
      .flags = TSR_UNIT_B,
  };
  return multiply(blas, &product, type);
}

/* Each column, or each row, is multiplied by an element of x. */
static cublasStatus_t dgmm(cublasHandle_t handle, int mode, int m, int n, const void *A, int lda,
                           const void *x, int incx, void *C, int ldc, int type) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if ((mode != SIDE_LEFT && mode != SIDE_RIGHT) || m < 0 || n < 0 || lda < (m > 1 ? m : 1) ||
      ldc < (m > 1 ? m : 1))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool is_left = mode == SIDE_LEFT;
  const struct tsr_matrix vector = vector_of(x, is_left ? m : n, incx, type);
  const struct tsr_product product = {
      .a = columns_of(matrix_of(A, lda, is_left)), .b = {.address = vector.address, .batch = vector.row},
      .d = columns_of(matrix_of(C, ldc, is_left)), .alpha = one, .m = (uint32_t)(is_left ? n : m), .n = 1,
      .k = 1, .batches = (uint32_t)(is_left ? m : n),
  };
  return multiply(blas, &product, type);
}

/* The functions of one type. */
#define VECTORS(letter, type, number)                                                                       \
  cublasStatus_t tsr_cublas##letter##axpy_v2(cublasHandle_t handle, int n, const type *alpha,               \
                                             const type *x, int incx, type *y, int incy) {                  \
    return axpy(handle, n, alpha, x, incx, y, incy, number);                                                \
  }                                                                                                         \
  cublasStatus_t tsr_cublas##letter##scal_v2(cublasHandle_t handle, int n, const type *alpha, type *x,      \
                                             int incx) {                                                    \
    return scal(handle, n, alpha, x, incx, number);                                                         \
  }                                                                                                         \
  cublasStatus_t tsr_cublas##letter##copy_v2(cublasHandle_t handle, int n, const type *x, int incx,         \
                                             type *y, int incy) {                                           \
    return copy(handle, n, x, incx, y, incy, number);                                                       \
  }                                                                                                         \
  cublasStatus_t tsr_cublas##letter##dot_v2(cublasHandle_t handle, int n, const type *x, int incx,          \
                                            const type *y, int incy, type *sum) {                           \
    return dot(handle, n, x, incx, y, incy, sum, number);                                                   \
  }                                                                                                         \
  cublasStatus_t tsr_cublas##letter##gemv_v2(cublasHandle_t handle, int trans, int m, int n,                \
                                             const type *alpha, const type *A, int lda, const type *x,      \
                                             int incx, const type *beta, type *y, int incy) {               \
    return gemv(handle, trans, m, n, alpha, A, lda, x, incx, beta, y, incy, number);                        \
  }                                                                                                         \
  cublasStatus_t tsr_cublas##letter##ger_v2(cublasHandle_t handle, int m, int n, const type *alpha,         \
                                            const type *x, int incx, const type *y, int incy, type *A,      \
                                            int lda) {                                                      \
    return ger(handle, m, n, alpha, x, incx, y, incy, A, lda, number);                                      \
  }                                                                                                         \
  cublasStatus_t tsr_cublas##letter##geam(cublasHandle_t handle, int transa, int transb, int m, int n,      \
                                          const type *alpha, const type *A, int lda, const type *beta,      \
                                          const type *B, int ldb, type *C, int ldc) {                       \
    return geam(handle, transa, transb, m, n, alpha, A, lda, beta, B, ldb, C, ldc, number);                 \
  }                                                                                                         \
  cublasStatus_t tsr_cublas##letter##dgmm(cublasHandle_t handle, int mode, int m, int n, const type *A,     \
                                          int lda, const type *x, int incx, type *C, int ldc) {             \
    return dgmm(handle, mode, m, n, A, lda, x, incx, C, ldc, number);                                       \
  }
VECTORS(S, float, TSR_F32)
VECTORS(D, double, TSR_F64)
