#ifndef TSR_CUSPARSE_TYPES_H
#define TSR_CUSPARSE_TYPES_H

#include <stddef.h>

#include "library_types.h"

typedef int cusparseStatus_t;
typedef struct tsr_sparse *cusparseHandle_t;

enum {
  CUSPARSE_STATUS_SUCCESS = 0,
  CUSPARSE_STATUS_NOT_INITIALIZED = 1,
  CUSPARSE_STATUS_ALLOC_FAILED = 2,
  CUSPARSE_STATUS_INVALID_VALUE = 3,
  CUSPARSE_STATUS_NOT_SUPPORTED = 10,
};

/* The interface whose names the library exports. */
#define TSR_SPARSE_VERSION ((struct tsr_version){12, 9, 4})

#endif
