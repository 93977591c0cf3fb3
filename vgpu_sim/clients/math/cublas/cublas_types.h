#ifndef TSR_CUBLAS_TYPES_H
#define TSR_CUBLAS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "library_types.h"

typedef int cublasStatus_t;
typedef struct tsr_blas *cublasHandle_t;
typedef void (*cublasLogCallback)(const char *message);

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
#define TSR_BLAS_VERSION ((struct tsr_version){12, 9, 3})
#else
#define TSR_BLAS_VERSION ((struct tsr_version){13, 10, 0})
#endif
#define TSR_CUDART_VERSION (TSR_MAJOR == 12 ? 12090 : 13050)

#endif
