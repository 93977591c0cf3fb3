#ifndef TSR_CUFFT_TYPES_H
#define TSR_CUFFT_TYPES_H

#include <stddef.h>

#include "library_types.h"

typedef int cufftResult;
typedef int cufftHandle;

enum {
  CUFFT_SUCCESS = 0,
  CUFFT_INVALID_PLAN = 1,
  CUFFT_ALLOC_FAILED = 2,
  CUFFT_INVALID_VALUE = 4,
  CUFFT_SETUP_FAILED = 7,
  CUFFT_NOT_SUPPORTED = 16,
};

/* The interface whose names the library exports. */
#if TSR_MAJOR == 11
#define TSR_FFT_VERSION ((struct tsr_version){11, 4, 1})
#else
#define TSR_FFT_VERSION ((struct tsr_version){12, 5, 0})
#endif

#endif
