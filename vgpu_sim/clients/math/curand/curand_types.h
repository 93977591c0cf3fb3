#ifndef TSR_CURAND_TYPES_H
#define TSR_CURAND_TYPES_H

#include <stddef.h>

#include "library_types.h"

typedef int curandStatus_t;

enum {
  CURAND_STATUS_SUCCESS = 0,
  CURAND_STATUS_OUT_OF_RANGE = 104,
  CURAND_STATUS_ARCH_MISMATCH = 204, /* "does not support requested feature" */
};

/* The interface whose names the library exports. */
#define TSR_RAND_VERSION ((struct tsr_version){10, 4, 5})

#endif
