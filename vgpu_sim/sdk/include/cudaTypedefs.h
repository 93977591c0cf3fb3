/* For programs and libraries that include this header for the driver's interface: it declares no
 * types of function pointers. Write decltype(&cuInit) instead of a name such as PFN_cuInit. */
#ifndef TESSERA_CUDA_TYPEDEFS_H
#define TESSERA_CUDA_TYPEDEFS_H

#include "cuda.h"

#endif
