/* Descriptors of cuBLASLt: attributes by number, with the defaults that are documented. */
#include "descriptors.h"

#include "api.h"
#include "objects.h"
#include "values.h"

/* Attributes that only creation sets. */
enum { PREFERENCE_WORKSPACE = 1 };
enum { TRANSFORM_SCALE_TYPE = 0, TRANSFORM_POINTER_MODE = 1, TRANSFORM_TRANSA = 2, TRANSFORM_TRANSB = 3 };

static cublasStatus_t make(struct tsr_values **made, uint32_t kind) {
  if (!made) return CUBLAS_STATUS_INVALID_VALUE;
  *made = tsr_object_new(kind, sizeof **made);
  return *made ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static void put_int(struct tsr_values *values, int number, int32_t value) {
  tsr_values_set(values, number, &value, sizeof value);
}

static void put_long(struct tsr_values *values, int number, uint64_t value) {
  tsr_values_set(values, number, &value, sizeof value);
}

static cublasStatus_t destroy(struct tsr_values *values, uint32_t kind) {
  return tsr_object_free(values, kind) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* A value keeps the size that it has, which is right for those that creation sets. */
static cublasStatus_t set(struct tsr_values *handle, uint32_t kind, int number, const void *value,
                          size_t bytes) {
  struct tsr_values *values = tsr_object_find(handle, kind);
  const bool is_set = values && tsr_values_fits(values, number, bytes) &&
                      tsr_values_set(values, number, value, bytes);
  return is_set ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t get(struct tsr_values *handle, uint32_t kind, int number, void *value,
                          size_t bytes, size_t *written) {
  const struct tsr_values *values = tsr_object_find(handle, kind);
  const bool is_there = values && tsr_values_get(values, number, value, bytes, written);
  return is_there ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t tsr_cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, int computeType,
                                            int scaleType) {
  const cublasStatus_t status = make(matmulDesc, TSR_MATMUL);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  put_int(*matmulDesc, MATMUL_COMPUTE_TYPE, computeType);
  put_int(*matmulDesc, MATMUL_SCALE_TYPE, scaleType);
  for (int number = MATMUL_POINTER_MODE; number <= MATMUL_TRANSC; ++number)
    put_int(*matmulDesc, number, 0); /* host pointers, nothing transposed */
  put_int(*matmulDesc, MATMUL_EPILOGUE, 1); /* CUBLASLT_EPILOGUE_DEFAULT */
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc) {
  return destroy(matmulDesc, TSR_MATMUL);
}

cublasStatus_t tsr_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc, int attr,
                                                  const void *buf, size_t sizeInBytes) {
  return set(matmulDesc, TSR_MATMUL, attr, buf, sizeInBytes);
}

cublasStatus_t tsr_cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t matmulDesc, int attr, void *buf,
                                                  size_t sizeInBytes, size_t *sizeWritten) {
  return get(matmulDesc, TSR_MATMUL, attr, buf, sizeInBytes, sizeWritten);
}

cublasStatus_t tsr_cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, int type, uint64_t rows,
                                              uint64_t cols, int64_t ld) {
  const cublasStatus_t status = make(matLayout, TSR_LAYOUT);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  put_int(*matLayout, LAYOUT_TYPE, type);
  put_int(*matLayout, LAYOUT_ORDER, 0); /* by columns */
  put_long(*matLayout, LAYOUT_ROWS, rows);
  put_long(*matLayout, LAYOUT_COLS, cols);
  put_long(*matLayout, LAYOUT_LD, (uint64_t)ld);
  put_int(*matLayout, LAYOUT_BATCH_COUNT, 1);
  put_long(*matLayout, LAYOUT_BATCH_OFFSET, 0);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout) {
  return destroy(matLayout, TSR_LAYOUT);
}

cublasStatus_t tsr_cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout, int attr,
                                                    const void *buf, size_t sizeInBytes) {
  return set(matLayout, TSR_LAYOUT, attr, buf, sizeInBytes);
}

cublasStatus_t tsr_cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t matLayout, int attr, void *buf,
                                                    size_t sizeInBytes, size_t *sizeWritten) {
  return get(matLayout, TSR_LAYOUT, attr, buf, sizeInBytes, sizeWritten);
}

cublasStatus_t tsr_cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref) {
  const cublasStatus_t status = make(pref, TSR_PREFERENCE);
  if (status == CUBLAS_STATUS_SUCCESS) put_long(*pref, PREFERENCE_WORKSPACE, 0);
  return status;
}

cublasStatus_t tsr_cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref) {
  return destroy(pref, TSR_PREFERENCE);
}

cublasStatus_t tsr_cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref, int attr,
                                                        const void *buf, size_t sizeInBytes) {
  return set(pref, TSR_PREFERENCE, attr, buf, sizeInBytes);
}

cublasStatus_t tsr_cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t pref, int attr,
                                                        void *buf, size_t sizeInBytes,
                                                        size_t *sizeWritten) {
  return get(pref, TSR_PREFERENCE, attr, buf, sizeInBytes, sizeWritten);
}

cublasStatus_t tsr_cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *transformDesc,
                                                     int scaleType) {
  const cublasStatus_t status = make(transformDesc, TSR_TRANSFORM);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  put_int(*transformDesc, TRANSFORM_SCALE_TYPE, scaleType);
  for (int number = TRANSFORM_POINTER_MODE; number <= TRANSFORM_TRANSB; ++number)
    put_int(*transformDesc, number, 0);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasLtMatrixTransformDescDestroy(cublasLtMatrixTransformDesc_t transformDesc) {
  return destroy(transformDesc, TSR_TRANSFORM);
}

cublasStatus_t tsr_cublasLtMatrixTransformDescSetAttribute(cublasLtMatrixTransformDesc_t transformDesc,
                                                           int attr, const void *buf,
                                                           size_t sizeInBytes) {
  return set(transformDesc, TSR_TRANSFORM, attr, buf, sizeInBytes);
}

cublasStatus_t tsr_cublasLtMatrixTransformDescGetAttribute(cublasLtMatrixTransformDesc_t transformDesc,
                                                           int attr, void *buf, size_t sizeInBytes,
                                                           size_t *sizeWritten) {
  return get(transformDesc, TSR_TRANSFORM, attr, buf, sizeInBytes, sizeWritten);
}
