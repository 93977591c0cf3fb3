#ifndef TSR_CUSOLVER_TYPES_H
#define TSR_CUSOLVER_TYPES_H

#include <stddef.h>

#include "library_types.h"

typedef int cusolverStatus_t;
typedef struct tsr_solver *cusolverDnHandle_t;

enum {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_NOT_SUPPORTED = 9,
};

/* The interface whose names the library exports. */
#if TSR_MAJOR == 11
#define TSR_SOLVER_VERSION ((struct tsr_version){11, 7, 5})
#else
#define TSR_SOLVER_VERSION ((struct tsr_version){12, 4, 1})
#endif

#endif
