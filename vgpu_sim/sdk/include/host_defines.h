/* The qualifiers of CUDA C++. A host compiler that is not compiling CUDA sees them as nothing. */
#ifndef TESSERA_HOST_DEFINES_H
#define TESSERA_HOST_DEFINES_H

#if defined(__CUDA__) && defined(__clang__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#ifdef TESSERA_MANAGED /* tessera cc makes it what the annotation says: clang has no such attribute */
#define __managed__ __attribute__((device, annotate("tessera.managed")))
#else
#define __managed__                                                                               \
  __attribute__((unavailable("__managed__ variables need `tessera cc` without -rdc=true and -dc," \
                             " in the source itself; or use cudaMallocManaged")))
#endif
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#if __has_attribute(cluster_dims)
#define __cluster_dims__(...) __attribute__((cluster_dims(__VA_ARGS__)))
#else
#define __cluster_dims__(...)                                                     \
  __attribute__((unavailable("__cluster_dims__ needs a newer clang; launch with " \
                             "cudaLaunchAttributeClusterDimension instead")))
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
