#ifndef TSR_NVSHMEM_TYPES_H
#define TSR_NVSHMEM_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "library_types.h"

typedef int nvshmemStatus_t;

enum { NVSHMEMX_SUCCESS = 0, NVSHMEMX_ERROR_NOT_SUPPORTED = 3 };

#endif
