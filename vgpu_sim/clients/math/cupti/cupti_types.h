#ifndef TSR_CUPTI_TYPES_H
#define TSR_CUPTI_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int CUptiResult;

enum { CUPTI_SUCCESS = 0, CUPTI_ERROR_INVALID_PARAMETER = 1, CUPTI_ERROR_NOT_SUPPORTED = 27 };

/* The interface whose names the library exports. */
enum { TSR_PROFILING_VERSION = 130500 };

#endif
