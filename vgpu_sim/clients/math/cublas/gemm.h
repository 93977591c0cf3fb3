/* The product of two matrices, or of batches of them, on the device. */
#ifndef TSR_CUBLAS_GEMM_H
#define TSR_CUBLAS_GEMM_H

#include "handle.h"

/* cudaDataType */
enum { TSR_F32 = 0, TSR_F64 = 1, TSR_F16 = 2, TSR_BF16 = 14 };

/* One matrix operand: its element type, and distances in elements. */
struct tsr_matrix {
  uint64_t address;
  int type;
  int64_t row, column, batch; /* between rows, columns and matrices */
};

/* C = alpha * A * B + beta * C for `batches` matrices, with A of m × k and B of k × n elements.
 * A and B have one type, and the rows of C are adjacent. The scales have the type `scale`, in
 * host or device memory as the handle's pointer mode says. */
struct tsr_gemm {
  int m, n, k, batches;
  struct tsr_matrix a, b, c;
  int scale;
  const void *alpha, *beta;
};

/* Whether there is a kernel for the types. */
bool tsr_gemm_is_known(const struct tsr_gemm *gemm);

/* Put the product into the handle's stream. The sizes are positive (k may be 0) and the types
 * known. A matrix that is NULL and would be read or written is an invalid value. */
cublasStatus_t tsr_gemm_launch(struct tsr_blas *blas, const struct tsr_gemm *gemm);

#endif
