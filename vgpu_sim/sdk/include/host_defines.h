/* The qualifiers of CUDA C++. A host compiler that is not compiling CUDA sees them as nothing. */
#ifndef TESSERA_HOST_DEFINES_H
#define TESSERA_HOST_DEFINES_H

#if defined(__CUDA__) && defined(__clang__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
/* tessera cc makes annotations what they say: clang has no __managed__, and drops clusters' sizes. */
#if defined(TESSERA_ANNOTATIONS) && !defined(__CUDACC_RDC__)
#define __managed__ __attribute__((device, annotate("tessera.managed")))
#else
#define __managed__                                                                               \
  __attribute__((unavailable("__managed__ variables need `tessera cc` without -rdc=true and -dc," \
                             " in the source or its own headers; or use cudaMallocManaged")))
#endif
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#ifdef TESSERA_ANNOTATIONS
#define __cluster_dims__(...) __attribute__((annotate("tessera.cluster_dims", __VA_ARGS__)))
#else
#define __cluster_dims__(...)                                                                     \
  __attribute__((unavailable("__cluster_dims__ needs `tessera cc`, and to be in the source or its" \
                             " own headers; or launch with cudaLaunchAttributeClusterDimension")))
#endif
#if __has_attribute(grid_constant)
#define __grid_constant__ __attribute__((grid_constant))
#else
#define __grid_constant__
#endif
#else
#define __global__
#define __device__
#define __host__
#define __shared__
#define __constant__
#define __launch_bounds__(...)
#define __grid_constant__
#endif

#define __forceinline__ __inline__ __attribute__((always_inline))
/* `__noinline__` is a keyword of clang; a macro would spoil __attribute__((__noinline__)). */
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
#define CUDARTAPI

#endif
