/* Reductions over groups within a warp. */
#ifndef TESSERA_COOPERATIVE_GROUPS_REDUCE_H
#define TESSERA_COOPERATIVE_GROUPS_REDUCE_H

#include "../cooperative_groups.h"

#if defined(__CUDA__)
namespace cooperative_groups {
/* All threads get the result; the order of the operands is a tree over ranks. */
template <class Group, class T, class Operator>
static __device__ __forceinline__ T reduce(const Group &group, T v, Operator op) {
  const unsigned int size = group.num_threads(), rank = group.thread_rank();
  for (unsigned int width = 1; width < size; width *= 2) {
    const T other = group.shfl_down(v, width);
    if (rank % (2 * width) == 0 && rank + width < size) v = op(v, other);
  }
  return group.shfl(v, 0);
}
}  // namespace cooperative_groups
#endif

#endif
