/* Reductions over groups within a warp, and over tiles of several warps. */
#ifndef TESSERA_COOPERATIVE_GROUPS_REDUCE_H
#define TESSERA_COOPERATIVE_GROUPS_REDUCE_H

#include "../cooperative_groups.h"

#if defined(__CUDA__)
namespace cooperative_groups {
namespace __v1 {
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
/* In a tile of several warps, the results of the warps are combined in their order. */
template <unsigned int Size, class Parent, class T, class Operator>
static __device__ __forceinline__ typename details::only_if<(Size > 32), T>::type reduce(
    const thread_block_tile<Size, Parent> &tile, T v, Operator op) {
  const unsigned int rank = tile.thread_rank();
  v = reduce(thread_block_tile<32>(), v, op);
  if (rank % 32 == 0) *tile.template value_of<T>(rank / 32) = v;
  tile.sync();
  v = *tile.template value_of<T>(0);
  for (unsigned int warp = 1; warp < Size / 32; warp++) v = op(v, *tile.template value_of<T>(warp));
  tile.sync();
  return v;
}
/* The first thread of the group applies the result to a cuda::atomic or cuda::atomic_ref. */
template <class Group, class Atomic, class T, class Operator>
static __device__ __forceinline__ void reduce_update_async(const Group &group, Atomic &atomic,
                                                           const T &v, Operator &&op) {
  auto result = reduce(group, v, op);
  if (group.thread_rank() != 0) return;
  auto old = atomic.load();
  while (!atomic.compare_exchange_weak(old, op(old, result))) {
  }
}
/* The first thread of the group stores the result. */
template <class Group, class Atomic, class T, class Operator>
static __device__ __forceinline__ void reduce_store_async(const Group &group, Atomic &atomic,
                                                          const T &v, Operator &&op) {
  auto result = reduce(group, v, op);
  if (group.thread_rank() == 0) atomic.store(result);
}
}  // namespace __v1
}  // namespace cooperative_groups
#endif

#endif
