/* Groups of threads that cooperate: blocks, tiles of a warp, coalesced threads, grids, clusters. */
#ifndef TESSERA_COOPERATIVE_GROUPS_H
#define TESSERA_COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

#if defined(__CUDA__)
#define TESSERA_CG __device__ __forceinline__

namespace cooperative_groups {
/* CCCL declares blocks and tiles in this namespace. */
namespace __v1 {

namespace details {
TESSERA_CG unsigned int lane() {
  unsigned int r;
  __asm__("mov.u32 %0, %%laneid;" : "=r"(r));
  return r;
}
TESSERA_CG unsigned int rank_in_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
TESSERA_CG unsigned int block_threads() { return blockDim.x * blockDim.y * blockDim.z; }
TESSERA_CG unsigned int lanes_below(unsigned int mask) {
  return __popc(mask & ((1u << lane()) - 1));
}
/* Returns the lane of the group's thread number `rank`. */
TESSERA_CG unsigned int lane_of(unsigned int mask, unsigned int rank) {
  for (; rank; rank--) mask &= mask - 1;
  return __ffs(mask) - 1;
}
/* Shuffles a value of any type that can be copied as bytes: in words, unless it is a number. */
template <class T, class Shuffle>
TESSERA_CG T shuffle_words(T v, Shuffle shuffle) {
  if constexpr (__is_arithmetic(T)) {
    return shuffle(v);
  } else {
    unsigned int words[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(words, &v, sizeof(T));
    for (unsigned int &word : words) word = shuffle(word);
    __builtin_memcpy(&v, words, sizeof(T));
    return v;
  }
}
}  // namespace details

/* What groups within a warp share; `Self` has mask(), thread_rank() and num_threads(). */
template <class Self>
class warp_group {
  TESSERA_CG const Self &self() const { return *static_cast<const Self *>(this); }
  TESSERA_CG unsigned int own(unsigned int lanes) const {
    const unsigned int mask = self().mask();
    unsigned int out = 0, at = 0;
    for (unsigned int rest = mask; rest; rest &= rest - 1, at++) {
      out |= (lanes >> (__ffs(rest) - 1) & 1) << at;
    }
    return out;
  }
  template <class T>
  TESSERA_CG T from(T v, unsigned int rank) const {
    const unsigned int mask = self().mask(), lane = details::lane_of(mask, rank);
    return details::shuffle_words(v, [=](auto word) { return __shfl_sync(mask, word, lane); });
  }

 public:
  TESSERA_CG void sync() const { __syncwarp(self().mask()); }
  TESSERA_CG unsigned long long size() const { return self().num_threads(); }
  template <class T>
  TESSERA_CG T shfl(T v, int rank) const {
    return from(v, rank % self().num_threads());
  }
  template <class T>
  TESSERA_CG T shfl_up(T v, unsigned int delta) const {
    const unsigned int rank = self().thread_rank();
    return from(v, rank >= delta ? rank - delta : rank);
  }
  template <class T>
  TESSERA_CG T shfl_down(T v, unsigned int delta) const {
    const unsigned int rank = self().thread_rank(), last = self().num_threads();
    return from(v, rank + delta < last ? rank + delta : rank);
  }
  TESSERA_CG int any(int predicate) const { return __any_sync(self().mask(), predicate); }
  TESSERA_CG int all(int predicate) const { return __all_sync(self().mask(), predicate); }
  TESSERA_CG unsigned int ballot(int predicate) const {
    return own(__ballot_sync(self().mask(), predicate));
  }
  template <class T>
  TESSERA_CG unsigned int match_any(T v) const {
    return own(__match_any_sync(self().mask(), v));
  }
  template <class T>
  TESSERA_CG unsigned int match_all(T v, int &same) const {
    return own(__match_all_sync(self().mask(), v, &same));
  }
};

/* Shared memory by which tiles of more than a warp synchronise, and reduce values of 32 bytes.
 * Tiles of each size have barriers of their own, because they may be in use together. */
template <unsigned int Threads = 1024>
struct alignas(16) block_tile_memory {
  unsigned long long arrived[5][16];
  unsigned long long values[32][4];
};

namespace details {
/* Returns the block's memory for wide tiles of a this_thread_block() that was given none. */
TESSERA_CG block_tile_memory<> *own_tile_memory() {
  __shared__ block_tile_memory<> memory;
  return &memory;
}
}  // namespace details

class thread_block {
  block_tile_memory<> *memory = nullptr;

 public:
  thread_block() = default;
  TESSERA_CG explicit thread_block(block_tile_memory<> *shared) : memory(shared) {}
  TESSERA_CG block_tile_memory<> *tile_memory() const { return memory; }
  static TESSERA_CG void sync() { __syncthreads(); }
  /* All threads arrive before any one has waited, so one barrier between the two is enough. */
  class arrival_token {};
  static TESSERA_CG arrival_token barrier_arrive() { return {}; }
  static TESSERA_CG void barrier_wait(arrival_token &&) { __syncthreads(); }
  static TESSERA_CG unsigned int thread_rank() { return details::rank_in_block(); }
  static TESSERA_CG unsigned int size() { return details::block_threads(); }
  static TESSERA_CG unsigned int num_threads() { return details::block_threads(); }
  static TESSERA_CG dim3 group_index() { return blockIdx; }
  static TESSERA_CG dim3 thread_index() { return threadIdx; }
  static TESSERA_CG dim3 group_dim() { return blockDim; }
  static TESSERA_CG dim3 dim_threads() { return blockDim; }
};

class grid_group {
  static TESSERA_CG unsigned int *barrier() {
    unsigned int low, high;
    __asm__ __volatile__("mov.u32 %0, %%envreg2;" : "=r"(low));
    __asm__ __volatile__("mov.u32 %0, %%envreg1;" : "=r"(high));
    return (unsigned int *)((unsigned long long)high << 32 | low) + 1;
  }

 public:
  /* Whether the kernel was launched with cudaLaunchCooperativeKernel. */
  static TESSERA_CG bool is_valid() { return barrier() != (unsigned int *)0 + 1; }
  static TESSERA_CG unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  static TESSERA_CG unsigned long long block_rank() {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  static TESSERA_CG unsigned long long thread_rank() {
    return block_rank() * details::block_threads() + details::rank_in_block();
  }
  static TESSERA_CG unsigned long long size() { return num_blocks() * details::block_threads(); }
  static TESSERA_CG unsigned long long num_threads() { return size(); }
  static TESSERA_CG dim3 group_dim() { return gridDim; }
  static TESSERA_CG dim3 dim_blocks() { return gridDim; }
  static TESSERA_CG dim3 block_index() { return blockIdx; }
  /* A barrier with a generation: the low 16 bits count the blocks that have arrived, the high 16 bits
   * the barriers that are complete. The last block resets the count and begins a generation. */
  class arrival_token {
    friend class grid_group;
    unsigned int generation = 0;
  };
  static TESSERA_CG arrival_token barrier_arrive() {
    const unsigned long long blocks = num_blocks();
    if (!is_valid() || blocks > 0xffff) __trap();
    arrival_token token;
    __syncthreads();
    if (details::rank_in_block() == 0) {
      unsigned int *word = barrier(), seen;
      __asm__ __volatile__("atom.add.acq_rel.gpu.u32 %0, [%1], 1;"
                           : "=r"(seen) : "l"(word) : "memory");
      token.generation = seen >> 16;
      if ((seen & 0xffff) + 1 == blocks) {
        __asm__ __volatile__("red.add.release.gpu.u32 [%0], %1;"
                             :: "l"(word), "r"(0x10000 - (unsigned int)blocks) : "memory");
      }
    }
    return token;
  }
  static TESSERA_CG void barrier_wait(arrival_token &&token) {
    if (details::rank_in_block() == 0) {
      unsigned int *word = barrier(), seen;
      do {
        __asm__ __volatile__("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
      } while (seen >> 16 == token.generation);
    }
    __syncthreads();
  }
  static TESSERA_CG void sync() { barrier_wait(barrier_arrive()); }
};

template <unsigned int Size, class Parent = void>
class thread_block_tile;

namespace details {
/* The threads of a tile's parent: those of the block, unless the parent is a tile itself. */
template <class Parent>
struct threads_of {
  static TESSERA_CG unsigned int rank() { return rank_in_block(); }
  static TESSERA_CG unsigned int count() { return block_threads(); }
};
template <unsigned int Size, class Parent>
struct threads_of<thread_block_tile<Size, Parent>> {
  static TESSERA_CG unsigned int rank() { return rank_in_block() % Size; }
  static TESSERA_CG unsigned int count() { return Size; }
};

/* What tiles of each size have. */
template <unsigned int Size>
struct tile_size {
  static_assert((Size & (Size - 1)) == 0 && Size <= 1024, "a power of two, at most 1024");
  static TESSERA_CG unsigned int thread_rank() { return rank_in_block() % Size; }
  static TESSERA_CG constexpr unsigned int num_threads() { return Size; }
};
/* The place of a tile among those of its parent. */
template <unsigned int Size, class Parent>
struct tile_place : tile_size<Size> {
  static TESSERA_CG unsigned int meta_group_rank() { return threads_of<Parent>::rank() / Size; }
  static TESSERA_CG unsigned int meta_group_size() {
    return (threads_of<Parent>::count() + Size - 1) / Size;
  }
  TESSERA_CG void take_place(unsigned int, unsigned int) {}
};
/* A tile whose type names no parent has the place of the tile that it is a copy of. */
template <unsigned int Size>
struct tile_place<Size, void> : tile_size<Size> {
  unsigned int place = 0, places = 1;
  TESSERA_CG unsigned int meta_group_rank() const { return place; }
  TESSERA_CG unsigned int meta_group_size() const { return places; }
  TESSERA_CG void take_place(unsigned int rank, unsigned int size) { place = rank, places = size; }
};

template <unsigned int Size, class Parent, bool Wide = (Size > 32)>
class tile;

/* A tile of a warp. */
template <unsigned int Size, class Parent>
class tile<Size, Parent, false> : public warp_group<tile<Size, Parent>>,
                                  public tile_place<Size, Parent> {
 public:
  using tile_place<Size, Parent>::thread_rank;
  using tile_place<Size, Parent>::num_threads;
  static TESSERA_CG unsigned int mask() {
    const unsigned int all = Size == 32 ? ~0u : (1u << Size % 32) - 1;
    return all << (details::lane() & ~(Size - 1));
  }
  template <class T>
  TESSERA_CG T shfl(T v, int rank) const {
    return details::shuffle_words(
        v, [=](auto word) { return __shfl_sync(mask(), word, rank, Size); });
  }
  template <class T>
  TESSERA_CG T shfl_up(T v, unsigned int delta) const {
    return details::shuffle_words(
        v, [=](auto word) { return __shfl_up_sync(mask(), word, delta, Size); });
  }
  template <class T>
  TESSERA_CG T shfl_down(T v, unsigned int delta) const {
    return details::shuffle_words(
        v, [=](auto word) { return __shfl_down_sync(mask(), word, delta, Size); });
  }
  template <class T>
  TESSERA_CG T shfl_xor(T v, unsigned int lanes) const {
    return details::shuffle_words(
        v, [=](auto word) { return __shfl_xor_sync(mask(), word, lanes, Size); });
  }
};

/* A tile of several warps. It synchronises in the memory that this_thread_block() was given, or
 * in memory of its own, as on devices of compute capability 8.0 and later. */
template <unsigned int Size, class Parent>
class tile<Size, Parent, true> : public tile_place<Size, Parent> {
  static constexpr unsigned int which =
      Size == 64 ? 0 : Size == 128 ? 1 : Size == 256 ? 2 : Size == 512 ? 3 : 4;
  block_tile_memory<> *memory;

  TESSERA_CG unsigned int barrier() const {
    return (unsigned int)__cvta_generic_to_shared(&memory->arrived[which][rank_in_block() / Size]);
  }

 public:
  /* All threads of the block make their tiles together. */
  TESSERA_CG explicit tile(const thread_block &block)
      : memory(block.tile_memory() ? block.tile_memory() : own_tile_memory()) {
    __syncthreads();
    if (rank_in_block() % Size == 0) {
      __asm__ __volatile__("mbarrier.init.shared.b64 [%0], %1;"
                           :: "r"(barrier()), "r"(Size) : "memory");
    }
    __syncthreads();
  }
  static TESSERA_CG constexpr unsigned int size() { return Size; }
  TESSERA_CG void sync() const {
    __asm__ __volatile__(
        "{ .reg .pred p; .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];\n"
        "again: mbarrier.test_wait.shared.b64 p, [%0], t;\n"
        "@!p bra again; }" :: "r"(barrier()) : "memory");
  }
  /* Returns where a warp of the tile puts a value for the others. */
  template <class T>
  TESSERA_CG T *value_of(unsigned int warp) const {
    static_assert(sizeof(T) <= 32, "a value of at most 32 bytes");
    return (T *)memory->values[rank_in_block() / Size * (Size / 32) + warp];
  }
  /* All threads of the tile name the same rank. */
  template <class T>
  TESSERA_CG T shfl(T v, unsigned int rank) const {
    if (this->thread_rank() == rank % Size) *value_of<T>(0) = v;
    sync();
    v = *value_of<T>(0);
    sync();
    return v;
  }
  TESSERA_CG int any(int predicate) const { return lanes_with(predicate) != 0; }
  TESSERA_CG int all(int predicate) const { return lanes_with(predicate) == Size; }

 private:
  TESSERA_CG unsigned int lanes_with(int predicate) const {
    const unsigned int lanes = __ballot_sync(~0u, predicate), rank = this->thread_rank();
    unsigned int count = 0;
    if (rank % 32 == 0) *value_of<unsigned int>(rank / 32) = lanes;
    sync();
    for (unsigned int warp = 0; warp < Size / 32; warp++) {
      count += __popc(*value_of<unsigned int>(warp));
    }
    sync();
    return count;
  }
};

/* A type that exists if a condition holds. */
template <bool Condition, class T>
struct only_if {};
template <class T>
struct only_if<true, T> {
  using type = T;
};
}  // namespace details

/* A tile of a block, or of another tile, with a size that is a power of two. */
template <unsigned int Size, class Parent>
class thread_block_tile : public details::tile<Size, Parent> {
 public:
  using details::tile<Size, Parent>::tile;
  thread_block_tile() = default;
  /* A tile keeps its threads when its type names no parent, or another one. */
  template <class Other, class = typename details::only_if<(Size <= 32), Other>::type>
  TESSERA_CG thread_block_tile(const thread_block_tile<Size, Other> &other) {
    this->take_place(other.meta_group_rank(), other.meta_group_size());
  }
};

/* Threads of a warp that are active together, or that a partition has put together. */
class coalesced_group : public warp_group<coalesced_group> {
  unsigned int lanes;

 public:
  TESSERA_CG explicit coalesced_group(unsigned int mask) : lanes(mask) {}
  TESSERA_CG unsigned int mask() const { return lanes; }
  TESSERA_CG unsigned int thread_rank() const { return details::lanes_below(lanes); }
  TESSERA_CG unsigned int num_threads() const { return __popc(lanes); }
};

/* A block, or threads of one warp, without a type that says which. */
class thread_group {
  unsigned int lanes;  // 0: the block

  TESSERA_CG explicit thread_group(unsigned int mask) : lanes(mask) {}
  friend TESSERA_CG thread_group tiled_partition(const thread_group &group, unsigned int size);

 public:
  TESSERA_CG thread_group(const thread_block &) : lanes(0) {}
  TESSERA_CG thread_group(const coalesced_group &group) : lanes(group.mask()) {}
  template <unsigned int Size, class Parent>
  TESSERA_CG thread_group(const thread_block_tile<Size, Parent> &tile) : lanes(tile.mask()) {}
  TESSERA_CG void sync() const {
    if (lanes) __syncwarp(lanes);
    else __syncthreads();
  }
  TESSERA_CG unsigned int thread_rank() const {
    return lanes ? details::lanes_below(lanes) : details::rank_in_block();
  }
  TESSERA_CG unsigned long long num_threads() const {
    return lanes ? __popc(lanes) : details::block_threads();
  }
  TESSERA_CG unsigned long long size() const { return num_threads(); }
};

static TESSERA_CG thread_block this_thread_block() { return thread_block(); }
template <unsigned int Threads>
static TESSERA_CG thread_block this_thread_block(block_tile_memory<Threads> &memory) {
  return thread_block((block_tile_memory<> *)&memory);
}
static TESSERA_CG grid_group this_grid() { return grid_group(); }
static TESSERA_CG coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <unsigned int Size, class Parent>
static TESSERA_CG thread_block_tile<Size, Parent> tiled_partition(const Parent &parent) {
  if constexpr (Size > 32) return thread_block_tile<Size, Parent>(parent);
  else return thread_block_tile<Size, Parent>();
}
static TESSERA_CG coalesced_group tiled_partition(const coalesced_group &group, unsigned int size) {
  const unsigned int first = group.thread_rank() / size * size;
  unsigned int mask = group.mask(), out = 0;
  for (unsigned int rank = 0; mask; rank++, mask &= mask - 1) {
    if (rank >= first && rank < first + size) out |= mask & -mask;
  }
  return coalesced_group(out);
}
/* Splits a block, or threads of a warp, into groups of `size` threads, at most 32. */
TESSERA_CG thread_group tiled_partition(const thread_group &group, unsigned int size) {
  if (group.lanes) return tiled_partition(coalesced_group(group.lanes), size);
  const unsigned int first = details::lane() / size * size;
  const unsigned int left = details::block_threads() - (details::rank_in_block() - details::lane());
  const unsigned int end = first + size < left ? first + size : left;
  const unsigned int below = end >= 32 ? ~0u : (1u << end) - 1;
  return thread_group(below & ~((1u << first) - 1));
}
template <class Group, class Label>
static TESSERA_CG coalesced_group labeled_partition(const Group &group, Label label) {
  return coalesced_group(__match_any_sync(group.mask(), label));
}
template <class Group>
static TESSERA_CG coalesced_group binary_partition(const Group &group, bool predicate) {
  const unsigned int with = __ballot_sync(group.mask(), predicate);
  return coalesced_group(predicate ? with : group.mask() & ~with);
}
template <unsigned int Size>
static TESSERA_CG coalesced_group tiled_partition(const coalesced_group &group) {
  return tiled_partition(group, Size);
}
template <class Group>
static TESSERA_CG void sync(const Group &group) {
  group.sync();
}
}  // namespace __v1
using namespace __v1;
}  // namespace cooperative_groups
#include "cooperative_groups/cluster.h"
#include "cooperative_groups/invoke.h"
#include "cooperative_groups/operators.h"
#undef TESSERA_CG
#endif

#endif
