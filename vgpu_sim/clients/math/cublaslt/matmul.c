/* Matrix products, and the one algorithm for them, which needs no workspace. */
#include "api.h"
#include "handle.h"
#include "plan.h"

enum { ALGORITHM = 0 };
static const uint64_t mark = UINT64_C(0x5453524741454d4d); /* in an algorithm of this library */

static uint64_t address_of(const void *at) { return (uint64_t)(uintptr_t)at; }

cublasStatus_t tsr_cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                                  const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
                                  const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta,
                                  const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
                                  cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
                                  void *workspace, size_t workspaceSizeInBytes, cudaStream_t stream) {
  (void)workspace, (void)workspaceSizeInBytes;
  struct tsr_plan plan;
  if (!tsr_light_is_handle(lightHandle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha || !beta || (algo && algo->data[0] != mark)) return CUBLAS_STATUS_INVALID_VALUE;
  const struct tsr_layouts layouts = {Adesc, Bdesc, Cdesc, Ddesc};
  const cublasStatus_t planned = tsr_plan_make(computeDesc, layouts, &plan);
  if (planned != CUBLAS_STATUS_SUCCESS) return planned;
  struct tsr_product *product = &plan.product;
  if (product->m == 0 || product->n == 0 || product->batches == 0) return CUBLAS_STATUS_SUCCESS;
  product->a.address = address_of(A);
  product->b.address = address_of(B);
  product->c.address = address_of(C);
  product->d.address = address_of(D);
  product->alpha = tsr_product_scale(alpha, plan.types.scale, plan.has_device_scales);
  product->beta = tsr_product_scale(beta, plan.types.scale, plan.has_device_scales);
  if (!tsr_product_is_complete(product)) return CUBLAS_STATUS_INVALID_VALUE;
  if (product->flags & TSR_BIAS && !product->bias) return CUBLAS_STATUS_INVALID_VALUE;
  if (!tsr_light_enter(lightHandle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int code = tsr_product_launch(product, plan.types, stream);
  if (code < 0) return CUBLAS_STATUS_INTERNAL_ERROR;
  return code == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

static void describe(cublasLtMatmulHeuristicResult_t *result) {
  *result = (cublasLtMatmulHeuristicResult_t){
      .algo = {{mark}}, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1};
}

cublasStatus_t tsr_cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
    cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preference, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t *heuristicResultsArray, int *returnAlgoCount) {
  (void)preference;
  struct tsr_plan plan;
  if (!tsr_light_is_handle(lightHandle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requestedAlgoCount < 1 || !heuristicResultsArray || !returnAlgoCount)
    return CUBLAS_STATUS_INVALID_VALUE;
  *returnAlgoCount = 0;
  const struct tsr_layouts layouts = {Adesc, Bdesc, Cdesc, Ddesc};
  const cublasStatus_t planned = tsr_plan_make(operationDesc, layouts, &plan);
  if (planned != CUBLAS_STATUS_SUCCESS) return planned;
  describe(heuristicResultsArray);
  *returnAlgoCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasLtMatmulAlgoCheck(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
                                           cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                           cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                           const cublasLtMatmulAlgo_t *algo,
                                           cublasLtMatmulHeuristicResult_t *result) {
  struct tsr_plan plan;
  if (!tsr_light_is_handle(lightHandle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!algo || !result || algo->data[0] != mark) return CUBLAS_STATUS_INVALID_VALUE;
  const struct tsr_layouts layouts = {Adesc, Bdesc, Cdesc, Ddesc};
  const cublasStatus_t planned = tsr_plan_make(operationDesc, layouts, &plan);
  if (planned == CUBLAS_STATUS_SUCCESS) describe(result);
  return planned;
}

cublasStatus_t tsr_cublasLtMatmulAlgoGetIds(cublasLtHandle_t lightHandle, int computeType, int scaleType,
                                            int Atype, int Btype, int Ctype, int Dtype,
                                            int requestedAlgoCount, int *algoIdsArray,
                                            int *returnAlgoCount) {
  const int types[] = {Atype, Btype, Ctype, Dtype};
  if (!tsr_light_is_handle(lightHandle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requestedAlgoCount < 1 || !algoIdsArray || !returnAlgoCount) return CUBLAS_STATUS_INVALID_VALUE;
  *returnAlgoCount = tsr_plan_has_types(computeType, scaleType, types) ? 1 : 0;
  if (*returnAlgoCount) algoIdsArray[0] = ALGORITHM;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasLtMatmulAlgoInit(cublasLtHandle_t lightHandle, int computeType, int scaleType,
                                          int Atype, int Btype, int Ctype, int Dtype, int algoId,
                                          cublasLtMatmulAlgo_t *algo) {
  const int types[] = {Atype, Btype, Ctype, Dtype};
  if (!tsr_light_is_handle(lightHandle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!algo || algoId != ALGORITHM) return CUBLAS_STATUS_INVALID_VALUE;
  if (!tsr_plan_has_types(computeType, scaleType, types)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *algo = (cublasLtMatmulAlgo_t){{mark}};
  return CUBLAS_STATUS_SUCCESS;
}
