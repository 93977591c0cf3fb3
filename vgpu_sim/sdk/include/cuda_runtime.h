/* The CUDA runtime for CUDA C++. `tessera cc` includes it first in every CUDA source. */
#ifndef TESSERA_CUDA_RUNTIME_H
#define TESSERA_CUDA_RUNTIME_H
/* Programs and NVIDIA's helper headers test this name to learn that the header was included. */
#define __CUDA_RUNTIME_H__

#if defined(__CUDA__) && defined(__clang__)
#ifndef CUDA_VERSION
#define CUDA_VERSION 12090
#endif
/* Overloads of the mathematical functions for the device have to be known before <cmath>. */
#include <__clang_cuda_math_forward_declares.h>
#ifndef __CUDACC__
#define __CUDACC__
#endif
#ifndef __NVCC__
#define TESSERA_CC 1
#endif
/* nvcc has this name, and clang only in Microsoft's dialect. clang's __builtin_assume ignores
 * conditions that call functions, as threadIdx does. */
#ifndef __assume
#define __assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#endif
#include <cmath>
#include <math.h>
#include <cstdlib>
#include <cstring>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <time.h>
#endif

#include "cuda_runtime_api.h"
#include "library_types.h"
#include "vector_functions.h"

#if defined(__CUDA__) && defined(__clang__)
#include "tessera/device.h"
#include "tessera/overloads/extremes.h"
#include "tessera/surfaces.h"
#include "tessera/textures.h"
/* Device code has new and delete without an include; this header of clang's makes them. */
#include <new>
#endif
#ifdef __cplusplus
#include "tessera/runtime_templates.h"
#endif

#if defined(__CUDA__) && defined(__clang__) && __has_include("curand_mtgp32_kernel.h")
/* This header of NVIDIA's cuRAND declares blockDim and threadIdx again, with nvcc's types. */
#define dim3 __cuda_builtin_blockDim_t
#define uint3 __cuda_builtin_threadIdx_t
#include "curand_mtgp32_kernel.h"
#undef dim3
#undef uint3
#endif

#endif
