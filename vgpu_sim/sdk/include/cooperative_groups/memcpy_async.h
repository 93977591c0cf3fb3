/* Copies by all threads of a group. They are complete when wait() returns. */
#ifndef TESSERA_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define TESSERA_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H

#include "../cooperative_groups.h"

#if defined(__CUDA__)
namespace cooperative_groups {
namespace __v1 {
template <class Group>
static __device__ __forceinline__ void memcpy_async(const Group &group, void *target,
                                                    const void *source, size_t bytes) {
  for (size_t i = group.thread_rank(); i < bytes; i += group.size()) {
    ((char *)target)[i] = ((const char *)source)[i];
  }
}
/* Counts of elements instead of bytes; the smaller one decides. */
template <class Group, class T, class TargetLayout, class SourceLayout>
static __device__ __forceinline__ void memcpy_async(const Group &group, T *target,
                                                    const TargetLayout &there, const T *source,
                                                    const SourceLayout &here) {
  const size_t to = there, from = here;
  memcpy_async(group, (void *)target, (const void *)source, (to < from ? to : from) * sizeof(T));
}
template <unsigned int Stages, class Group>
static __device__ __forceinline__ void wait_prior(const Group &group) {
  group.sync();
}
template <class Group>
static __device__ __forceinline__ void wait(const Group &group) {
  group.sync();
}
}  // namespace __v1
}  // namespace cooperative_groups
#endif

#endif
