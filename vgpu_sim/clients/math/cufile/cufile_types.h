#ifndef TSR_CUFILE_TYPES_H
#define TSR_CUFILE_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The library's error in the lower half, and the driver's in the upper one. */
typedef uint64_t CUfileError_t;
typedef void *CUfileHandle_t;

enum {
  CU_FILE_SUCCESS = 0,
  CU_FILE_PLATFORM_NOT_SUPPORTED = 5007,
  CU_FILE_INVALID_VALUE = 5022,
};

/* The interface whose names the library exports: 1.20. */
enum { TSR_CUFILE_VERSION = 1200 };

#endif
