// Built-in functions of nvcc: dot products of vectors, atomics of 16 bytes and with an order and a
// scope, and groups of several warps.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>

#include "check.h"

namespace cg = cooperative_groups;

namespace {
struct alignas(16) Pair {
  unsigned long long a, b;
};
using Counter = cuda::atomic<int, cuda::thread_scope_device>;

__global__ void dots(int* o) {
  const char4 a = make_char4(-1, 2, -3, 4);
  const uchar4 c = make_uchar4(255, 2, 3, 4);
  o[0] = __dp4a(a, make_char4(5, 6, 7, -8), 10);
  o[1] = (int)__dp4a(c, c, 1u);
  o[2] = __dp2a_lo(make_short2(-300, 7), a, 1);
  o[3] = __dp2a_hi(make_short2(-300, 7), a, 1);
  o[4] = (int)__dp2a_lo(make_ushort2(60000, 9), c, 2u);
  o[5] = (int)__dp2a_hi(make_ushort2(60000, 9), c, 2u);
}

__global__ void push(Pair* p) {
  Pair seen = p[0];
  while (true) {
    const Pair old = atomicCAS(p, seen, Pair{seen.a + threadIdx.x, seen.b + 1});
    if (old.a == seen.a && old.b == seen.b) break;
    seen = old;
  }
  __syncthreads();
  if (threadIdx.x == 0) p[1] = atomicExch(p, Pair{7, 8});
}

struct Words {
  int sum, bits, parity, bad;
  float single;
  unsigned int bytes;
  long long left, least, most;
  double halves;
  unsigned short small;
  Pair pair;
};
__global__ void orders(Words* w) {
  const int i = threadIdx.x;
  __nv_atomic_fetch_add(&w->sum, 2, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  __nv_atomic_add(&w->halves, 0.5, __NV_ATOMIC_RELAXED);
  __nv_atomic_sub(&w->left, 1, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_BLOCK);
  __nv_atomic_fetch_min(&w->least, -(long long)i, __NV_ATOMIC_RELAXED);
  __nv_atomic_fetch_max(&w->most, (long long)i - 500, __NV_ATOMIC_SEQ_CST);
  __nv_atomic_or(&w->bits, 1 << i % 31, __NV_ATOMIC_RELAXED);
  __nv_atomic_fetch_xor(&w->parity, 1, __NV_ATOMIC_RELAXED);
  unsigned short seen = __nv_atomic_load_n(&w->small, __NV_ATOMIC_RELAXED);
  while (!__nv_atomic_compare_exchange_n(&w->small, &seen, seen + 1, true, __NV_ATOMIC_ACQ_REL,
                                         __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE)) {
  }
  // Another thread's pair is never half of one and half of another.
  Pair x, y{(unsigned)i, (unsigned)i};
  __nv_atomic_load(&w->pair, &x, __NV_ATOMIC_ACQUIRE);
  __nv_atomic_store(&w->pair, &y, __NV_ATOMIC_RELEASE);
  const Pair z = __nv_atomic_exchange_n(&w->pair, y, __NV_ATOMIC_SEQ_CST);
  if (x.a != x.b || z.a != z.b) w->bad = 1;
  if (i) return;
  float three = 3, old, one = 1;
  __nv_atomic_exchange(&w->single, &three, &old, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_CLUSTER);
  if (old != 0) w->bad = 2;
  if (__nv_atomic_compare_exchange(&w->single, &one, &old, false, __NV_ATOMIC_SEQ_CST,
                                   __NV_ATOMIC_RELAXED)) {
    w->bad = 3;
  }
  if (one != 3) w->bad = 4;
  unsigned char* byte = (unsigned char*)&w->bytes + 1;
  __nv_atomic_store_n(byte, 200, __NV_ATOMIC_RELAXED);
  __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_BLOCK);
  if (__nv_atomic_load_n(byte, __NV_ATOMIC_SEQ_CST) != 200) w->bad = 5;
}

template <class T>
using Atomic = cuda::atomic<T, cuda::thread_scope_system>;
struct Halves {
  short x, y;
};
struct Atomics {
  Atomic<unsigned char> bytes[4];
  Atomic<int> turn;
  Atomic<bool> flag;
  Atomic<short> small;
  Atomic<unsigned> most;
  Atomic<long long> left;
  Atomic<float> sum;
  Atomic<Halves> halves;
  Atomic<Pair> pair;
};
/* Called by the host, too. */
__host__ __device__ void change(Atomics& a, int i) {
  a.bytes[i % 4].fetch_add(1);
  a.flag.exchange(true);
  a.small++;
  a.most.fetch_max(i);
  --a.left;
  a.sum.fetch_add(0.5f);
  Halves h = a.halves.load(cuda::memory_order_acquire);
  while (!a.halves.compare_exchange_strong(h, Halves{(short)(h.x + 1), (short)(h.y + 2)},
                                           cuda::memory_order_acq_rel,
                                           cuda::memory_order_relaxed)) {
  }
}
__global__ void change_all(Atomics* a) {
  change(*a, threadIdx.x);
  Pair p = a->pair.load();
  while (!a->pair.compare_exchange_weak(p, Pair{p.a + 1, p.b + 2})) {
  }
  __syncthreads();
  if (threadIdx.x) return;
  /* The host changes the values next, while the kernel waits. */
  a->turn.store(1, cuda::memory_order_release);
  while (a->turn.load(cuda::memory_order_acquire) != 2) __nanosleep(100);
}

template <int Size>
__global__ void tiles(int* failed, Counter* sum, Counter* greatest) {
  __shared__ cg::block_tile_memory<512> memory;
  const auto block = cg::this_thread_block(memory);
  const auto tile = cg::tiled_partition<Size>(block);
  const auto warp = cg::tiled_partition<32>(block);
  const int i = threadIdx.x;
  if (tile.shfl(i, Size - 1) != i / Size * Size + Size - 1) *failed = 1;
  if (tile.any(i == 5) != (i < Size)) *failed = 2;
  if (tile.all(i != Size + 3) == (i / Size == 1)) *failed = 3;
  cg::reduce_update_async(tile, *sum, i, cg::plus<int>());
  cg::reduce_store_async(warp, greatest[i / 32], i, cg::greater<int>());
}

__global__ void tangents(float* f) {
  __assume(threadIdx.x < 64);
  f[threadIdx.x] = __tanhf((threadIdx.x - 32.0f) / 8);
}

int check_dots() {
  Device<int> out(6);
  dots<<<1, 1>>>(out);
  const int expected[] = {-36, 65055, 315, 929, 15300020, 180038};
  return wrong(out.read(), [&](size_t i) { return expected[i]; });
}
int check_pairs() {
  Device<Pair> pairs(std::vector<Pair>{{1, 0}, {0, 0}});
  push<<<1, 100>>>(pairs);
  const std::vector<Pair> p = pairs.read();
  return p[0].a != 7 || p[0].b != 8 || p[1].a != 1 + 99 * 50 || p[1].b != 100;
}
int check_orders() {
  Device<Words> words(1);
  orders<<<1, 200>>>(words);
  const Words w = words.read()[0];
  return w.bad + (w.sum != 400) + (w.bits != 0x7fffffff) + (w.parity != 0) + (w.single != 3) +
         (w.bytes != 200 << 8) + (w.left != -200) + (w.least != -199) + (w.most != 0) +
         (w.halves != 100) + (w.small != 200) + (w.pair.a != w.pair.b);
}
int check_atomics() {
  Atomics* a;
  CHECK(cudaMallocManaged(&a, sizeof *a));
  memset((void*)a, 0, sizeof *a);
  change_all<<<1, 200>>>(a);
  while (a->turn.load(cuda::memory_order_acquire) != 1) {
  }
  change(*a, 301);
  a->turn.store(2, cuda::memory_order_release);
  CHECK(cudaDeviceSynchronize());
  const Halves h = a->halves;
  const int wrong = (a->bytes[0] != 50) + (a->bytes[1] != 51) + !a->flag + (a->small != 201) +
                    (a->most != 301u) + (a->left != -201) + (a->sum != 100.5f) + (h.x != 201) +
                    (h.y != 402);
  CHECK(cudaFree(a));
  return wrong;
}
int check_tiles() {
  Device<int> failed(1), counts(17);
  Counter* counters = (Counter*)(int*)counts;
  tiles<64><<<1, 512>>>(failed, counters, counters + 1);
  tiles<128><<<1, 512>>>(failed, counters, counters + 1);
  tiles<256><<<1, 512>>>(failed, counters, counters + 1);
  const auto expected = [](size_t i) { return i ? (int)i * 32 - 1 : 3 * 512 * 511 / 2; };
  return failed.read()[0] + wrong(counts.read(), expected);
}
int check_tangents() {
  Device<float> out(64);
  tangents<<<1, 64>>>(out);
  return wrong(out.read(), [](size_t i) { return std::tanh((i - 32.0) / 8); }, 6e-4);
}
}  // namespace

int main() {
  return report("dot products", check_dots()) + report("pairs", check_pairs()) +
         report("orders", check_orders()) + report("atomics", check_atomics()) +
         report("tiles", check_tiles()) +
         report("tangents", check_tangents());
}
