#ifndef TSR_CUDNN_TYPES_H
#define TSR_CUDNN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "library_types.h"

typedef int cudnnStatus_t;
typedef struct tsr_dnn *cudnnHandle_t;
typedef struct tsr_tensor *cudnnTensorDescriptor_t;

enum {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_BAD_PARAM_NULL_POINTER = 2002,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
};

/* The interface whose names the library exports. */
#define TSR_DNN_VERSION ((struct tsr_version){9, 28, 0})
#define TSR_CUDART_VERSION 12090

#endif
