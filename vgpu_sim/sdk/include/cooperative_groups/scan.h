/* Scans over groups within a warp. */
#ifndef TESSERA_COOPERATIVE_GROUPS_SCAN_H
#define TESSERA_COOPERATIVE_GROUPS_SCAN_H

#include "../cooperative_groups.h"

#if defined(__CUDA__)
namespace cooperative_groups {
namespace __v1 {
template <class Group, class T, class Operator = plus<T>>
static __device__ __forceinline__ T inclusive_scan(const Group &group, T v,
                                                   Operator op = Operator()) {
  const unsigned int size = group.num_threads(), rank = group.thread_rank();
  for (unsigned int width = 1; width < size; width *= 2) {
    const T other = group.shfl_up(v, width);
    if (rank >= width) v = op(other, v);
  }
  return v;
}
template <class Group, class T, class Operator = plus<T>>
static __device__ __forceinline__ T exclusive_scan(const Group &group, T v,
                                                   Operator op = Operator()) {
  const T up = group.shfl_up(inclusive_scan(group, v, op), 1);
  return group.thread_rank() == 0 ? T() : up;
}
}  // namespace __v1
}  // namespace cooperative_groups
#endif

#endif
