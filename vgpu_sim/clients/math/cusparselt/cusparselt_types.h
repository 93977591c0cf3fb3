#ifndef TSR_CUSPARSELT_TYPES_H
#define TSR_CUSPARSELT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "library_types.h"

typedef int cusparseStatus_t;

/* The caller's memory. */
typedef struct {
  _Alignas(16) uint8_t data[512];
} cusparseLtHandle_t;

enum {
  CUSPARSE_STATUS_SUCCESS = 0,
  CUSPARSE_STATUS_NOT_INITIALIZED = 1,
  CUSPARSE_STATUS_INVALID_VALUE = 3,
  CUSPARSE_STATUS_NOT_SUPPORTED = 10,
};

/* The interface whose names the library exports. */
#define TSR_SPARSE_LIGHT_VERSION ((struct tsr_version){0, 8, 1})

#endif
