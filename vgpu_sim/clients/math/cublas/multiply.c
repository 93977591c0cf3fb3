/* Products in the stream of a handle. */
#include "handle.h"

struct tsr_scale tsr_blas_scale(const struct tsr_blas *blas, const void *at, int type) {
  return tsr_product_scale(at, type, blas->pointer_mode != 0);
}

cublasStatus_t tsr_blas_multiply(struct tsr_blas *blas, const struct tsr_product *product,
                                 struct tsr_product_types types) {
  if (product->m == 0 || product->n == 0 || product->batches == 0) return CUBLAS_STATUS_SUCCESS;
  if (!tsr_product_is_complete(product)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!tsr_current_enter(&blas->current)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int code = tsr_product_launch(product, types, blas->stream);
  if (code < 0) return CUBLAS_STATUS_INTERNAL_ERROR;
  return code == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
