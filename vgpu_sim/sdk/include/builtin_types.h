/* The types that CUDA programs have without an include. */
#ifndef TESSERA_BUILTIN_TYPES_H
#define TESSERA_BUILTIN_TYPES_H

#include "driver_types.h"
#include "host_defines.h"
#include "vector_types.h"

#endif
