// A histogram whose bins the blocks of a cluster share, as a program for clusters keeps it.
#include <cooperative_groups.h>

#include <utility>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void histogram(const int* values, int n, int* bins, int each) {
  extern __shared__ int own[];
  auto cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < each; i += blockDim.x) own[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(cluster.map_shared_rank(own, values[i] / each) + values[i] % each, 1);
  auto token = cluster.barrier_arrive();
  cluster.barrier_wait(std::move(token));
  for (int i = threadIdx.x; i < each; i += blockDim.x)
    atomicAdd(&bins[cluster.block_rank() * each + i], own[i]);
  const bool places = cluster.dim_blocks().x == cluster.num_blocks() &&
                      cluster.block_index().x == cluster.block_rank() &&
                      cluster.query_shared_rank(own) == cluster.block_rank() &&
                      cluster.dim_threads().x == cluster.num_threads() &&
                      cluster.thread_index().x == cluster.thread_rank();
  if (!places) bins[0] = -1;
}

int main() {
  const int most = 256;
  const auto given = generate<int>(20000, [](int) { return rand() % most; });
  std::vector<int> expected(most);
  for (const int value : given) expected[value]++;
  Device<int> values(given);
  int failures = 0;
  for (int size = 1; size <= 8; size *= 2) {
    Device<int> bins(most);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = size;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(16);
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = most / size * sizeof(int);
    config.attrs = &attribute;
    config.numAttrs = 1;
    int fitting = 0, largest = 0;
    CHECK(cudaOccupancyMaxPotentialClusterSize(&largest, histogram, &config));
    CHECK(cudaOccupancyMaxActiveClusters(&fitting, histogram, &config));
    CHECK(cudaLaunchKernelEx(&config, histogram, (const int*)values, (int)given.size(), (int*)bins,
                             most / size));
    failures += largest != 8 || fitting < 1 || wrong(bins.read(), [&](int i) { return expected[i]; });
  }
  return report("clusters", failures);
}
