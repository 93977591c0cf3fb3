/* cooperative_groups/cluster.h: the blocks of a cluster. Part of cooperative_groups.h, which includes
 * it. */
#ifndef TESSERA_COOPERATIVE_GROUPS_CLUSTER_H
#define TESSERA_COOPERATIVE_GROUPS_CLUSTER_H

namespace cooperative_groups {
namespace __v1 {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
class cluster_group {
#define TESSERA_REGISTER(name, text)                          \
  static TESSERA_CG unsigned int name() {                     \
    unsigned int r;                                           \
    __asm__ __volatile__("mov.u32 %0, %%" text ";" : "=r"(r)); \
    return r;                                                 \
  }

 public:
  TESSERA_REGISTER(block_rank, "cluster_ctarank")
  TESSERA_REGISTER(num_blocks, "cluster_nctarank")
  static TESSERA_CG dim3 block_index() {
    return dim3(place_x(), place_y(), place_z());
  }
  static TESSERA_CG dim3 dim_blocks() {
    return dim3(size_x(), size_y(), size_z());
  }
  static TESSERA_CG dim3 thread_index() {
    return dim3(place_x() * blockDim.x + threadIdx.x, place_y() * blockDim.y + threadIdx.y,
                place_z() * blockDim.z + threadIdx.z);
  }
  static TESSERA_CG dim3 dim_threads() {
    return dim3(size_x() * blockDim.x, size_y() * blockDim.y, size_z() * blockDim.z);
  }
  static TESSERA_CG unsigned int thread_rank() {
    return block_rank() * details::block_threads() + details::rank_in_block();
  }
  static TESSERA_CG unsigned int num_threads() { return num_blocks() * details::block_threads(); }
  static TESSERA_CG unsigned int size() { return num_threads(); }
  struct arrival_token {};
  static TESSERA_CG arrival_token barrier_arrive() {
    __asm__ __volatile__("barrier.cluster.arrive.aligned;" ::: "memory");
    return arrival_token();
  }
  static TESSERA_CG void barrier_wait() {
    __asm__ __volatile__("barrier.cluster.wait.aligned;" ::: "memory");
  }
  static TESSERA_CG void barrier_wait(arrival_token &&) { barrier_wait(); }
  static TESSERA_CG void sync() {
    barrier_arrive();
    barrier_wait();
  }
  template <class T>
  static TESSERA_CG T *map_shared_rank(T *pointer, int rank) {
    unsigned long long r;
    __asm__("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"(pointer), "r"(rank));
    return (T *)r;
  }
  static TESSERA_CG unsigned int query_shared_rank(const void *pointer) {
    unsigned int r;
    __asm__("getctarank.u64 %0, %1;" : "=r"(r) : "l"(pointer));
    return r;
  }

 private:
  TESSERA_REGISTER(place_x, "cluster_ctaid.x")
  TESSERA_REGISTER(place_y, "cluster_ctaid.y")
  TESSERA_REGISTER(place_z, "cluster_ctaid.z")
  TESSERA_REGISTER(size_x, "cluster_nctaid.x")
  TESSERA_REGISTER(size_y, "cluster_nctaid.y")
  TESSERA_REGISTER(size_z, "cluster_nctaid.z")
#undef TESSERA_REGISTER
};
static TESSERA_CG cluster_group this_cluster() { return cluster_group(); }
#endif
}  // namespace __v1
}  // namespace cooperative_groups
#endif
