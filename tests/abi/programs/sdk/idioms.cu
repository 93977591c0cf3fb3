// What programs commonly write beyond single functions, each with a result of its own.
#include <cooperative_groups.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "check.h"

namespace cg = cooperative_groups;

namespace {
// One addition for all threads of a warp that are here: only the first has a value to shuffle.
__global__ void aggregate(const int* in, int n, int* counter, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || in[i] % 3) return;
  auto together = cg::coalesced_threads();
  int base;
  if (together.thread_rank() == 0) base = atomicAdd(counter, together.size());
  out[together.shfl(base, 0) + together.thread_rank()] = in[i];
}
__device__ int first_of(int value) { return __shfl_sync(~0u, value, 0); }
__global__ void broadcast(int* counter, int* out) {
  int found;
  if (threadIdx.x % 32 == 0) found = atomicAdd(counter, 1);
  found = first_of(found);
  out[threadIdx.x] = found >= 0 && found < blockDim.x / 32;
}
struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual int area() const = 0;
};
struct Square : Shape {
  int side;
  __device__ explicit Square(int a) : side(a) {}
  __device__ int area() const override { return side * side; }
};
struct Box : Shape {
  int* sides = new int[2];
  __device__ Box(int a, int b) { sides[0] = a, sides[1] = b; }
  __device__ ~Box() override { delete[] sides; }
  __device__ int area() const override { return sides[0] * sides[1]; }
};
__global__ void shapes(int* out) {
  const int i = threadIdx.x;
  const Shape* shape = i % 2 ? (Shape*)new Square(i) : (Shape*)new Box(i, 3);
  out[i] = shape->area();
  delete shape;
}
__global__ void split_barrier(int* out) {
  __shared__ int values[64];
  auto block = cg::this_thread_block();
  values[threadIdx.x] = threadIdx.x;
  auto token = block.barrier_arrive();
  const int own = threadIdx.x * threadIdx.x;
  block.barrier_wait(std::move(token));
  out[threadIdx.x] = values[63 - threadIdx.x] + own;
}
// Alignment behind the memory space, and a register with one percent sign.
__global__ void nvcc_spellings(int* out) {
  __shared__ alignas(128) int values[64];
  extern __shared__ alignas(1024) unsigned char rest[];
  unsigned int lane;
  asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));
  values[threadIdx.x] = lane;
  ((int*)rest)[threadIdx.x] = (size_t)values % 128 + (size_t)rest % 128;
  __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x] + ((int*)rest)[threadIdx.x ^ 1];
}
// Overloads of C++ for both types of numbers, by the names of C and in std.
template <class T>
__host__ __device__ T mathematics(T x, T y, int which) {
  int n = 0;
  T m = 0, other = 0;
  switch (which) {
    case 0: return round(x) + trunc(y) + rint(x) + nearbyint(y) + floor(x) + ceil(y);
    case 1: return fmax(x, y) + fmin(x, y) * 2 + fdim(y, x) + copysign(x, -y);
    case 2: return log2(x) + exp2(y) + log1p(x) + expm1(y) + logb(x);
    case 3: return cbrt(x) + hypot(x, y) + fma(x, y, x) + remainder(y, x);
    case 4: return erf(x) + erfc(y) + tgamma(x) + lgamma(y);
    case 5: return acosh(y) + asinh(x) + atanh(x / 2);
    case 6: return (T)(ilogb(y) + lrint(x) + lround(y) + llrint(y) + llround(x));
    case 7: return scalbn(x, 3) + scalbln(y, 2L) + remquo(y, x, &n) + nextafter(x, y);
    case 8: sincos(x, &m, &other); return m + 2 * other;
    case 9: return std::round(x) + std::fmax(x, y) + std::fma(x, x, y) + std::log2(y) + std::erf(x);
    case 10: return isnan(x) + isinf(y / 0) * 2 + isfinite(x) * 4 + signbit(-y) * 8 + std::isnan(y) * 16;
    default: return frexp(y, &n) + modf(y, &m) + m + ldexp(x, 2) + pow(x, 2) + std::abs(-x);
  }
}
template <class T>
__global__ void compute(T* out) {
  out[threadIdx.x] = mathematics<T>(T(1.375), T(2.75), threadIdx.x);
}
template <class T>
int wrong_mathematics(T bound) {
  Device<T> out(12);
  compute<T><<<1, 12>>>(out);
  const auto got = out.read();
  int bad = 0;
  for (int i = 0; i < 12; i++) {
    const double want = mathematics<double>(1.375, 2.75, i);
    bad += !(std::fabs(got[i] - want) <= bound * std::fabs(want));
  }
  return bad;
}
// Maxima and minima of sums, halves of words and those not below zero.
__host__ __device__ void dynamic_programming(unsigned* out) {
  bool high, low;
  *out++ = __vimax3_s32(-5, 3, 2), *out++ = __vimin3_u32(7, 0x80000000u, 9);
  *out++ = __vimax3_s16x2(0x8000ffff, 0x7fff0001, 0x00010002);
  *out++ = __vimin3_s16x2_relu(0x8000ffff, 0x7fff0003, 0x00010002);
  *out++ = __viaddmax_s32(0x7fffffff, 1, -7), *out++ = __viaddmin_s32_relu(-5, 2, 9);
  *out++ = __viaddmax_u16x2(0xffff0001, 0x00020002, 0x00000005);
  *out++ = __viaddmin_s16x2(0x7fff0001, 0x00010001, 0x00050005);
  *out++ = __vimax_s32_relu(-4, -2), *out++ = __vimin_s16x2_relu(0xfffe0005, 0x00010003);
  *out++ = __vibmax_s32(-1, 2, &high), *out++ = high;
  *out++ = __vibmin_u16x2(0x0001ffff, 0x00010002, &high, &low), *out++ = 2 * high + low;
}
__global__ void compute_dynamic(unsigned* out) { dynamic_programming(out); }
int wrong_dynamic_programming() {
  const unsigned wanted[] = {3, 7, 0x7fff0002, 0, -7u, 0, 0x10005, 0x80000002, 0, 3, 2, 0, 0x10002, 2};
  Device<unsigned> out(14);
  compute_dynamic<<<1, 1>>>(out);
  std::vector<unsigned> here(14);
  dynamic_programming(here.data());
  return wrong(out.read(), [&](int i) { return wanted[i]; }) + wrong(here, [&](int i) { return wanted[i]; });
}
__constant__ int constants[4];
// Overloads of the runtime for types of kernels and variables.
int wrong_templates() {
  int grid = 0, block = 0, same_grid = 0, same_block = 0, active = 0, bad = 0;
  const auto none = [](int) { return size_t(0); };
  const auto much = [](int threads) { return size_t(threads) * 256; };
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, compute<float>));
  CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&same_grid, &same_block, compute<float>, none));
  bad += grid < 1 || block < 1 || grid != same_grid || block != same_block;
  CHECK(cudaOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, compute<float>, 0, 64));
  bad += block < 1 || block > 64;
  CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, compute<float>, much));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&active, compute<float>, block,
                                                               much(block), cudaOccupancyDefault));
  bad += block < 32 || much(block) > 48 << 10 || active < 1;
  size_t bytes = 0;
  CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, compute<float>, 1, 64));
  bad += bytes < 48 << 10;
  const char* name = "";
  CHECK(cudaFuncGetName(&name, compute<float>));
  bad += !strstr(name, "compute");
  cudaGraph_t graph;
  cudaGraphNode_t to, from;
  cudaGraphExec_t executable;
  int *in, *others, *out;  // a graph copies between variables and pinned memory only
  CHECK(cudaMallocHost(&in, 4 * sizeof(int)));
  CHECK(cudaMallocHost(&others, 2 * sizeof(int)));
  CHECK(cudaMallocHost(&out, 3 * sizeof(int)));
  for (int i = 0; i < 4; i++) in[i] = i + 1;
  others[0] = 8, others[1] = 9;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemcpyNodeToSymbol(&to, graph, nullptr, 0, constants, in, 4 * sizeof(int), 0, cudaMemcpyHostToDevice));
  CHECK(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &to, 1, out, constants, 3 * sizeof(int), 4, cudaMemcpyDeviceToHost));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaDeviceSynchronize());
  bad += out[0] != 2 || out[1] != 3 || out[2] != 4;
  CHECK(cudaGraphExecMemcpyNodeSetParamsToSymbol(executable, to, constants, others, 2 * sizeof(int), 4, cudaMemcpyHostToDevice));
  CHECK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(executable, from, out, constants, 2 * sizeof(int), 4, cudaMemcpyDeviceToHost));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaDeviceSynchronize());
  bad += out[0] != 8 || out[1] != 9 || out[2] != 4;
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  for (int* memory : {in, others, out}) CHECK(cudaFreeHost(memory));
  return bad;
}
}  // namespace

int main() {
  const int n = 1000;
  const auto v = generate<int>(n, [](int i) { return i * 29 % 31; });
  int thirds = 0;
  long sum = 0;
  for (int value : v)
    if (value % 3 == 0) thirds++, sum += value;
  Device<int> in(v), counter(2), out(n), few(64);
  aggregate<<<4, 256>>>(in, n, counter, out);
  for (int value : out.read()) sum -= value;
  int bad = report("aggregated atomics", (counter.read()[0] != thirds) + (sum != 0));
  CHECK(cudaMemset(counter, 0, 2 * sizeof(int)));
  broadcast<<<1, 64>>>(counter, few);
  bad += report("broadcasts", wrong(few.read(), [](int) { return 1; }) + (counter.read()[0] != 2));
  shapes<<<1, 64>>>(few);
  bad += report("objects", wrong(few.read(), [](int i) { return i % 2 ? i * i : 3 * i; }));
  split_barrier<<<1, 64>>>(few);
  bad += report("split barriers", wrong(few.read(), [](int i) { return 63 - i + i * i; }));
  nvcc_spellings<<<1, 64, 64 * sizeof(int)>>>(few);
  bad += report("spellings", wrong(few.read(), [](int i) { return 31 - i % 32; }));
  bad += report("dynamic programming", wrong_dynamic_programming());
  bad += report("mathematics", wrong_mathematics<float>(1e-6f) + wrong_mathematics<double>(1e-14));
  bad += report("templates", wrong_templates());
  return bad != 0;
}
