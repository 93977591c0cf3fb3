/* The types of the CUDA runtime. */
#ifndef TESSERA_DRIVER_TYPES_H
#define TESSERA_DRIVER_TYPES_H
/* Programs and NVIDIA's helper headers test this name to learn that the header was included. */
#define __DRIVER_TYPES_H__

#include "tessera/runtime/values.h"
#include "tessera/runtime/arrays.h"
#include "tessera/runtime/memory.h"
#include "tessera/runtime/devices.h"
#include "tessera/runtime/graphs.h"

#endif
