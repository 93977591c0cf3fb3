/* Copies to shared memory in stages of a thread. */
#ifndef TESSERA_CUDA_PIPELINE_PRIMITIVES_H
#define TESSERA_CUDA_PIPELINE_PRIMITIVES_H

#include "tessera/aligned_size.h"

#if defined(__CUDA__)
/* Copies `bytes` (4, 8 or 16) less `zeros`, and fills the rest with zeros. */
static __device__ __forceinline__ void __pipeline_memcpy_async(void *target, const void *source,
                                                               size_t bytes, size_t zeros = 0) {
  for (size_t i = 0; i < bytes / 4; i++) {
    const size_t left = bytes - zeros > 4 * i ? bytes - zeros - 4 * i : 0;
    unsigned int word = 0;
    if (left >= 4) word = ((const unsigned int *)source)[i];
    else for (size_t b = 0; b < left; b++) {
      word |= (unsigned int)((const unsigned char *)source)[4 * i + b] << (8 * b);
    }
    ((unsigned int *)target)[i] = word;
  }
}
static __device__ __forceinline__ void __pipeline_commit() {}
/* Waits for all but the last `prior` stages of this thread, which are complete. */
static __device__ __forceinline__ void __pipeline_wait_prior(size_t) {}
#endif

#endif
