// Reductions, scans, sorting, histograms, atomics and groups of threads.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.h"

/* Declarations like those of CCCL, which has them before or after the groups' own header. */
namespace cooperative_groups {
namespace __v1 {
class thread_block;
template <unsigned int Size, typename Parent>
class thread_block_tile;
}  // namespace __v1
}  // namespace cooperative_groups
template <class T>
__host__ __device__ char is_function(T*, ...);

namespace cg = cooperative_groups;

namespace {
__device__ float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
  return v;
}
__global__ void reduce(const float* x, float* o, int n) {
  __shared__ float s[32];
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v += x[i];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? s[threadIdx.x] : 0;
    v = warp_sum(v);
    if (!threadIdx.x) atomicAdd(o, v);
  }
}
__global__ void scan(const int* x, int* y, int n) {
  __shared__ int ws[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x & 31, w = threadIdx.x >> 5;
  int v = i < n ? x[i] : 0;
  for (int o = 1; o < 32; o <<= 1) {
    const int t = __shfl_up_sync(~0u, v, o);
    if (l >= o) v += t;
  }
  if (l == 31) ws[w] = v;
  __syncthreads();
  if (w == 0) {
    int t = ws[l];
    for (int o = 1; o < 32; o <<= 1) {
      const int u = __shfl_up_sync(~0u, t, o);
      if (l >= o) t += u;
    }
    ws[l] = t;
  }
  __syncthreads();
  if (w) v += ws[w - 1];
  if (i < n) y[i] = v;
}
__global__ void warp_reductions(int *o) {
  const int l = threadIdx.x & 31, value = 5 - 3 * l;
  const unsigned mask = l % 2 ? 0xaaaaaaaau : 0x55555555u, bits = 1u << l | 1u << 31;
  const unsigned found[] = {
      (unsigned)__reduce_add_sync(mask, value), __reduce_add_sync(mask, bits),
      (unsigned)__reduce_min_sync(mask, value), __reduce_min_sync(mask, bits),
      (unsigned)__reduce_max_sync(mask, value), __reduce_max_sync(mask, bits),
      __reduce_and_sync(mask, bits), __reduce_or_sync(mask, bits), __reduce_xor_sync(mask, bits)};
  for (int i = 0; i < 9; i++) o[9 * l + i] = (int)found[i];
}
__global__ void block_max(const double* x, double* o) {
  extern __shared__ double d[];
  d[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int s = blockDim.x / 2; s; s >>= 1) {
    __syncthreads();
    if (threadIdx.x < s) d[threadIdx.x] = fmax(d[threadIdx.x], d[threadIdx.x + s]);
  }
  if (!threadIdx.x) o[blockIdx.x] = d[0];
}
__global__ void bitonic(int* a) {
  extern __shared__ int s[];
  const int t = threadIdx.x;
  s[t] = a[t];
  __syncthreads();
  for (int k = 2; k <= blockDim.x; k <<= 1)
    for (int j = k >> 1; j; j >>= 1) {
      const int p = t ^ j;
      if (p > t) {
        const bool up = (t & k) == 0;
        const int x = s[t], y = s[p];
        if ((x > y) == up) {
          s[t] = y;
          s[p] = x;
        }
      }
      __syncthreads();
    }
  a[t] = s[t];
}
__global__ void histogram(const unsigned char* x, unsigned* h, int n) {
  __shared__ unsigned s[256];
  s[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&s[x[i]], 1);
  __syncthreads();
  atomicAdd(&h[threadIdx.x], s[threadIdx.x]);
}
__global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d, half2* h,
                        __nv_bfloat162* b, unsigned short* us, long long* sl) {
  const int t = threadIdx.x;
  atomicMin(i, t - 7);
  atomicMax(i + 1, t);
  atomicAnd(u, ~(1u << t % 32));
  atomicOr(u + 1, 1u << t % 32);
  atomicXor(u + 2, t);
  atomicInc(u + 3, 7);
  atomicDec(u + 4, 7);
  atomicExch(i + 2, 5);
  atomicCAS(i + 3, 0, 9);
  atomicAdd(l, 1ull);
  atomicMax(l + 1, (unsigned long long)t);
  atomicAdd(f, 1.f);
  atomicAdd(d, 1.);
  atomicAdd(h, __float2half2_rn(1));
  atomicAdd(b, __float2bfloat162_rn(1));
  atomicCAS(us, (unsigned short)0, (unsigned short)2);
  atomicMin(sl, -(long long)t);
  atomicAdd_system(i + 4, 1);
  atomicAdd_block(i + 5, 1);
  atomicSub(i + 6, 2);
  __threadfence();
}
__global__ void references(int* p, unsigned long long* q) {
  cuda::atomic_ref<int, cuda::thread_scope_device> a(*p);
  a.fetch_add(1, cuda::memory_order_acq_rel);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> b(*q);
  unsigned long long e = threadIdx.x;
  while (!b.compare_exchange_strong(e, e + 2, cuda::memory_order_seq_cst)) {
  }
}
__global__ void operators(cuda::atomic<int, cuda::thread_scope_device>* a) {
  a[0]++, ++a[0], a[0] += 3, a[0] -= 1;
  --a[1], a[1]--;
  a[2] |= 1 << threadIdx.x % 32;
  a[3] &= ~(1 << threadIdx.x % 32);
  a[4] ^= 1 << threadIdx.x % 32;
  cuda::atomic_ref<int> b(*(int*)(a + 5));
  b |= 2 << threadIdx.x % 4;
  if (a[6] == 0) a[6] = 17;
}
__global__ void grid_steps(float* a, int n, int steps) {
  auto g = cg::this_grid();
  for (int k = 0; k < steps; k++) {
    for (int i = g.thread_rank(); i < n; i += g.size()) a[i] = a[i] * 0.5f + 1;
    auto token = g.barrier_arrive();
    g.barrier_wait(static_cast<cg::grid_group::arrival_token&&>(token));
  }
}
__global__ void tiles(const int* a, int* out) {
  auto b = cg::this_thread_block();
  auto w = cg::tiled_partition<32>(b);
  auto t = cg::tiled_partition<8>(w);
  const int i = b.thread_rank(), v = a[i];
  out[i] = cg::reduce(w, v, cg::plus<int>());
  out[64 + i] = cg::reduce(t, v, cg::greater<int>());
  out[128 + i] = cg::exclusive_scan(t, v);
  out[192 + i] = 0;
  auto c = cg::binary_partition(w, v & 1);
  if (v & 1) {
    out[192 + i] = 100 * c.size() + c.thread_rank();
    auto together = cg::coalesced_threads();  // at least the thread itself
    if (together.thread_rank() >= together.size()) out[192 + i] = -1;
  }
  auto lp = cg::labeled_partition(w, v & 3);
  out[256 + i] = cg::reduce(lp, v, cg::plus<int>());
  out[320 + i] = 100 * t.meta_group_rank() + 10 * t.meta_group_size() + w.meta_group_rank();
  const cg::thread_block_tile<8> copy = t;
  out[384 + i] = 100 * copy.meta_group_rank() + 10 * copy.meta_group_size() + w.meta_group_rank();
}
__device__ int sum_of(cg::thread_group group, int* work, int v) {
  const int rank = group.thread_rank();
  for (int half = group.size() / 2; half; half /= 2) {
    work[rank] = v;
    group.sync();
    if (rank < half) v += work[rank + half];
    group.sync();
  }
  return v;
}
__device__ int half_sum(cg::thread_block_tile<16> tile, int v) {
  for (int o = 8; o; o /= 2) v += tile.shfl_down(v, o);
  return v;
}
// Sums by groups without a type, of a block of 64 threads and of parts of 16.
__global__ void untyped(const int* a, int* out) {
  __shared__ int work[64];
  cg::thread_block block = cg::this_thread_block();
  const int i = block.thread_rank();
  const int all = sum_of(block, work, a[i]);
  cg::thread_group part = cg::tiled_partition(block, 16);
  const int some = sum_of(part, work + i / 16 * 16, a[i]);
  const int same = half_sum(cg::tiled_partition<16>(block), a[i]);
  if (i == 0) out[0] = all;
  if (part.thread_rank() == 0) out[1 + i / 16] = some == same ? some : -1;
}
__host__ __device__ bool extremes_are_right(float half, double one, unsigned big, long less) {
  return max(half, 0.25f) == half && min(half, 0.25f) == 0.25f && max(half, one) == one &&
         min(one, 0.75) == 0.75 && max(1, big) == big && min(less, -3L) == -3 &&
         max(half, half * NAN) == half && max(half, (float)nan("")) == half && isnan(nanf("")) &&
         max(2ull, 3ull) == 3 && min(-2, 7) == -2;
}
// Each of two tiles of 64 threads reduces and synchronises alone; shuffled values have 16 bytes.
__global__ void wide(const int* a, int* out) {
  __shared__ cg::block_tile_memory<128> memory;
  auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<64>(block);
  const int i = block.thread_rank();
  int sum = 0;
  for (unsigned k = 0; k <= tile.meta_group_rank(); k++) {
    sum += cg::reduce(tile, a[i], cg::plus<int>());
    tile.sync();
  }
  if (!extremes_are_right(0.5f, 1, ~0u, sum)) sum = -2;
  const int4 v = make_int4(i, sum, a[i], 1);
  const int4 next = cg::tiled_partition<32>(block).shfl_xor(v, 1);
  auto odd = cg::binary_partition(cg::tiled_partition<32>(block), i & 1);
  const int4 first = odd.shfl(v, 0);
  out[i] = next.y == sum && next.x == (i ^ 1) && first.x == i / 32 * 32 + i % 2 ? sum : -1;
}
// Threads below 32 fill stages of a ring that the others empty; a barrier counts the block.
__global__ void ring(const int* a, int* out, int stages) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ Barrier arrived;
  __shared__ int data[2][32], whole[64];
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&arrived, blockDim.x);
  block.sync();
  cuda::memcpy_async(block, whole, a, cuda::aligned_size_t<16>(sizeof whole), arrived);
  arrived.wait(arrived.arrive());
  const int last = whole[63 - threadIdx.x];
  auto pipe = cuda::make_pipeline(block, &state, 32);
  int sum = 0;
  for (int k = 0; k < stages; k++) {
    if (threadIdx.x < 32) {
      pipe.producer_acquire();
      cuda::memcpy_async(&data[k % 2][threadIdx.x], a + 32 * k + threadIdx.x, sizeof(int), pipe);
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      sum += (k + 1) * data[k % 2][63 - threadIdx.x];
      pipe.consumer_release();
    }
  }
  cg::memcpy_async(block, whole, a + 64, sizeof whole);
  cg::wait(block);
  out[threadIdx.x] = threadIdx.x < 32 ? last : sum + whole[threadIdx.x ^ 1];
}
// Tiles of 64 and of 128 threads of one block, which is given no memory for them, synchronise in
// any order.
__global__ void nested(const int* a, int* out) {
  auto block = cg::this_thread_block();
  auto small = cg::tiled_partition<64>(block);
  auto large = cg::tiled_partition<128>(block);
  const int i = block.thread_rank();
  int sum = 0;
  for (unsigned k = 0; k <= small.meta_group_rank(); k++)
    sum = cg::reduce(small, a[i], cg::plus<int>());
  out[i] = sum + 1000 * cg::reduce(large, a[i], cg::plus<int>());
}
// Copies of a size that is no multiple of the elements' alignment, by a thread and by a block.
__global__ void tails(const float4* in, unsigned char* out) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier arrived;
  __shared__ float4 one[2], all[2];
  if (threadIdx.x == 0) init(&arrived, blockDim.x);
  if (threadIdx.x < 2) one[threadIdx.x] = all[threadIdx.x] = make_float4(0, 0, 0, 0);
  __syncthreads();
  if (threadIdx.x == 0) cuda::memcpy_async(one, in, 21, arrived);
  cuda::memcpy_async(cg::this_thread_block(), all, in, 27, arrived);
  arrived.wait(arrived.arrive());
  out[threadIdx.x] = ((unsigned char*)one)[threadIdx.x];
  out[32 + threadIdx.x] = ((unsigned char*)all)[threadIdx.x];
}
}  // namespace

int check_stages() {
  const int stages = 9;
  const auto v = generate<int>(32 * stages, [](int i) { return i * 29 % 31; });
  Device<int> in(v), sums(5), out(64);
  untyped<<<1, 64>>>(in, sums);
  int bad = wrong(sums.read(), [&](int at) {
    int sum = 0;
    for (int i = at ? 16 * at - 16 : 0; i < (at ? 16 * at : 64); i++) sum += v[i];
    return sum;
  });
  Device<int> wides(128);
  wide<<<1, 128>>>(in, wides);
  bad += wrong(wides.read(), [&](int at) {
    int sum = 0;
    for (int i = at / 64 * 64; i < at / 64 * 64 + 64; i++) sum += v[i] * (at / 64 + 1);
    return sum;
  });
  Device<int> nests(256);
  nested<<<1, 256>>>(in, nests);
  bad += wrong(nests.read(), [&](int at) {
    int sum = 0;
    for (int i = at / 64 * 64; i < at / 64 * 64 + 64; i++) sum += v[i];
    for (int i = at / 128 * 128; i < at / 128 * 128 + 128; i++) sum += 1000 * v[i];
    return sum;
  });
  ring<<<1, 64>>>(in, out, stages);
  bad += wrong(out.read(), [&](int i) {
    if (i < 32) return v[63 - i];
    int sum = v[64 + (i ^ 1)];
    for (int k = 0; k < stages; k++) sum += (k + 1) * v[32 * k + 63 - i];
    return sum;
  });
  Device<float4> floats(2);
  CHECK(cudaMemset(floats, 7, 32));
  Device<unsigned char> bytes(64);
  tails<<<1, 32>>>(floats, bytes);
  bad += wrong(bytes.read(), [](int i) { return i % 32 < (i < 32 ? 21 : 27) ? 7 : 0; });
  bad += !extremes_are_right(0.5f, 1, ~0u, 5);
  return report("stages", bad);
}

int check_reductions() {
  const int n = 5000;
  const auto x = generate<float>(n, [](int i) { return i % 7; });
  Device<float> d(x), o(1);
  reduce<<<4, 128>>>(d, o, n);
  int bad = wrong(o.read(), [&](int) {
    float s = 0;
    for (float v : x) s += v;
    return s;
  });
  const auto z = generate<int>(1024, [](int i) { return i * 37 % 11; });
  Device<int> p(z), q(1024);
  scan<<<1, 1024>>>(p, q, 1024);
  int sum = 0;
  bad += wrong(q.read(), [&](int i) { return sum += z[i]; });
  const auto y = generate<double>(512, [](int i) { return i * 7919 % 1009; });
  Device<double> u(y), v(4);
  block_max<<<4, 128, 128 * sizeof(double)>>>(u, v);
  bad += wrong(v.read(), [&](int i) {
    double m = 0;
    for (int j = 0; j < 128; j++) m = fmax(m, y[i * 128 + j]);
    return m;
  });
  Device<int> r(9 * 32);
  warp_reductions<<<1, 32>>>(r);
  bad += wrong(r.read(), [&](int i) {
    const int odd = i / 9 % 2;
    int sum = 0, least = 5 - 3 * odd, most = least;
    unsigned total = 0, low = ~0u, high = 0, all = ~0u, any = 0, parity = 0;
    for (int l = odd; l < 32; l += 2) {
      const int value = 5 - 3 * l;
      const unsigned bits = 1u << l | 1u << 31;
      sum += value, least = value < least ? value : least, most = value > most ? value : most;
      total += bits, low = bits < low ? bits : low, high = bits > high ? bits : high;
      all &= bits, any |= bits, parity ^= bits;
    }
    const int wanted[] = {sum, (int)total, least, (int)low, most, (int)high, (int)all, (int)any,
                          (int)parity};
    return wanted[i % 9];
  });
  return report("reductions", bad);
}

int check_sorting() {
  const auto x = generate<int>(256, [](int i) { return i * 7919 % 257; });
  Device<int> d(x);
  bitonic<<<1, 256, 256 * sizeof(int)>>>(d);
  const auto got = d.read();
  int bad = 0;
  for (int i = 1; i < 256; i++) bad += got[i - 1] > got[i];
  return report("sorting", bad);
}

int check_atomics() {
  const int n = 4000;
  const auto x = generate<unsigned char>(n, [](int i) { return i * i % 251; });
  Device<unsigned char> d(x);
  Device<unsigned> h(256), u(8);
  histogram<<<3, 256>>>(d, h, n);
  std::vector<int> want(256);
  for (auto v : x) want[v]++;
  int bad = wrong(h.read(), [&](int i) { return want[i]; });
  Device<int> i(16);
  Device<unsigned long long> l(4);
  Device<float> f(1);
  Device<double> g(1);
  Device<half2> hh(1);
  Device<__nv_bfloat162> bb(1);
  Device<unsigned short> us(2);
  Device<long long> sl(1);
  atomics<<<1, 64>>>(i, u, l, f, g, hh, bb, us, sl);
  const int ints[] = {-7, 63, 5, 9, 64, 64, -128};
  const auto got = i.read();
  for (int k = 0; k < 7; k++) bad += got[k] != ints[k];
  const unsigned unsigneds[] = {0, ~0u, 0, 0, 0};
  const auto gu = u.read();
  for (int k = 0; k < 4; k++) bad += gu[k] != unsigneds[k];
  bad += l.read()[0] != 64 || l.read()[1] != 63 || f.read()[0] != 64 || g.read()[0] != 64;
  bad += (float)hh.read()[0].x != 64 || (float)hh.read()[0].y != 64;
  bad += (float)bb.read()[0].x != 64 || us.read()[0] != 2 || sl.read()[0] != -63;
  Device<int> o(std::vector<int>{0, 0, 0, -1, 0, 1, 0});
  operators<<<2, 32>>>((cuda::atomic<int, cuda::thread_scope_device>*)(int*)o);
  bad += o.read() != std::vector<int>{4 * 64, -2 * 64, -1, 0, 0, 31, 17};
  references<<<2, 32>>>(i, l);
  bad += i.read()[0] != -7 + 64 || l.read()[0] != 64 + 128;
  return report("atomics", bad);
}

int check_groups() {
  const int n = 300;
  Device<float> a(generate<float>(n, [](int i) { return i; }));
  float* pointer = a;
  int count = n, steps = 3;
  void* arguments[] = {&pointer, &count, &steps};
  CHECK(cudaLaunchCooperativeKernel(grid_steps, dim3(4), dim3(64), arguments));
  int bad = wrong(a.read(), [](int i) { return ((i * 0.5f + 1) * 0.5f + 1) * 0.5f + 1; });
  const auto v = generate<int>(64, [](int i) { return i * 29 % 31; });
  Device<int> in(v), out(448);
  tiles<<<1, 64>>>(in, out);
  bad += wrong(out.read(), [&](int at) {
    const int i = at % 64, w = i / 32 * 32, t = i / 8 * 8;
    int r = 0, odd = 0, before = 0;
    switch (at / 64) {
      case 0:
        for (int k = w; k < w + 32; k++) r += v[k];
        return r;
      case 1:
        for (int k = t; k < t + 8; k++) r = v[k] > r ? v[k] : r;
        return r;
      case 2:
        for (int k = t; k < i; k++) r += v[k];
        return r;
      case 3:
        for (int k = w; k < w + 32; k++) odd += v[k] & 1, before += k < i && v[k] & 1;
        return v[i] & 1 ? 100 * odd + before : 0;
      case 5:
      case 6:
        return 100 * (i % 32 / 8) + 10 * 4 + i / 32;
      default:
        for (int k = w; k < w + 32; k++) r += (v[k] & 3) == (v[i] & 3) ? v[k] : 0;
        return r;
    }
  });
  return report("groups", bad);
}
