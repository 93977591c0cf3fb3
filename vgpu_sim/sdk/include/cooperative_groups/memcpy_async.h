/* Copies by all threads of a group. They are complete when wait() returns. */
#ifndef TESSERA_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define TESSERA_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H

#include "../cooperative_groups.h"

#if defined(__CUDA__)
namespace cooperative_groups {
template <class Group>
static __device__ __forceinline__ void memcpy_async(const Group &group, void *target,
                                                    const void *source, size_t bytes) {
  for (size_t i = group.thread_rank(); i < bytes; i += group.size()) {
    ((char *)target)[i] = ((const char *)source)[i];
  }
}
template <class Group>
static __device__ __forceinline__ void wait(const Group &group) {
  group.sync();
}
}  // namespace cooperative_groups
#endif

#endif
