// The sum of an array: warps add by shuffles, blocks by shared memory, the grid by an atomic.
//     tessera cc -arch=sm_90 reduction.cu -o reduction
//     tessera run --board h100-80gb --slice 1g.10gb -- ./reduction
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

template <class T>
__global__ void sum(const T *in, int n, T *out) {
  __shared__ T warps[32];
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  T part = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) part += in[i];
  part = cg::reduce(warp, part, cg::plus<T>());
  if (warp.thread_rank() == 0) warps[warp.meta_group_rank()] = part;
  block.sync();
  if (warp.meta_group_rank() != 0) return;
  part = warp.thread_rank() < warp.meta_group_size() ? warps[warp.thread_rank()] : 0;
  part = cg::reduce(warp, part, cg::plus<T>());
  if (warp.thread_rank() == 0) atomicAdd(out, part);
}

int main() {
  const int n = 1 << 20;
  std::vector<double> values(n);
  for (int i = 0; i < n; i++) values[i] = i % 10;
  double *in, *out, result = 0;
  cudaMalloc(&in, n * sizeof(double));
  cudaMalloc(&out, sizeof(double));
  cudaMemcpy(in, values.data(), n * sizeof(double), cudaMemcpyHostToDevice);
  cudaMemset(out, 0, sizeof(double));
  sum<<<64, 256>>>(in, n, out);
  cudaMemcpy(&result, out, sizeof(double), cudaMemcpyDeviceToHost);
  double expected = 0;
  for (double v : values) expected += v;
  printf("sum %.0f, expected %.0f\n", result, expected);
  return result != expected;
}
