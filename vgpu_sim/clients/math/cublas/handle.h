/* The state of a cuBLAS handle. */
#ifndef TSR_CUBLAS_HANDLE_H
#define TSR_CUBLAS_HANDLE_H

#include "cublas_types.h"
#include "current.h"
#include "product.h"

struct tsr_blas {
  cudaStream_t stream;
  void *workspace;
  size_t workspace_bytes;
  int pointer_mode, atomics_mode, math_mode, multiprocessors;
  struct tsr_current current;
};

/* Return the state of a handle, or NULL if it is no handle. */
struct tsr_blas *tsr_blas_of(cublasHandle_t handle);

/* Return a scale of this type, in host or device memory as the handle's pointer mode says. */
struct tsr_scale tsr_blas_scale(const struct tsr_blas *blas, const void *at, int type);

/* Put a product into the handle's stream. A matrix that is NULL and would be read or written is
 * an invalid value, and a product without elements is none. */
cublasStatus_t tsr_blas_multiply(struct tsr_blas *blas, const struct tsr_product *product,
                                 struct tsr_product_types types);

#endif
