/* The CUDA driver interface, for C and C++. */
#ifndef TESSERA_CUDA_H
#define TESSERA_CUDA_H
/* Programs and NVIDIA's helper headers test this name to learn that the header was included. */
#define __cuda_cuda_h__

#undef CUDA_VERSION
#define CUDA_VERSION 12090

#include "tessera/driver/handles.h"
#include "tessera/driver/devices.h"
#include "tessera/driver/graphs.h"
#include "tessera/driver/arrays.h"
#include "tessera/driver/external.h"
#include "tessera/driver/pools.h"
#include "tessera/driver/functions.h"

#endif
