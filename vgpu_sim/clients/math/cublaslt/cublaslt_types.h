#ifndef TSR_CUBLASLT_TYPES_H
#define TSR_CUBLASLT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "library_types.h"

typedef int cublasStatus_t;
typedef struct tsr_light *cublasLtHandle_t;
typedef struct tsr_values *cublasLtMatmulDesc_t, *cublasLtMatrixLayout_t, *cublasLtMatmulPreference_t,
    *cublasLtMatrixTransformDesc_t;

typedef struct {
  uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;

enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

/* The interface whose names the library exports. */
#if TSR_MAJOR == 12
#define TSR_LIGHT_VERSION ((struct tsr_version){12, 9, 3})
#else
#define TSR_LIGHT_VERSION ((struct tsr_version){13, 10, 0})
#endif
#define TSR_CUDART_VERSION (TSR_MAJOR == 12 ? 12090 : 13050)

#endif
