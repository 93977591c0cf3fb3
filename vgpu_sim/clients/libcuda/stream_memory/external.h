/* External memory: CUDA Driver API, "External Resource Interoperability". */
#ifndef TSR_EXTERNAL_H
#define TSR_EXTERNAL_H

#include <stdbool.h>

#include "driver_types.h"

/* Free a buffer of external memory; false: there is none at the address. */
bool tsr_external_free(CUdeviceptr address, CUresult *result);

#endif
