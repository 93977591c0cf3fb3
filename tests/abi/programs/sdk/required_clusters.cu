// Kernels that require clusters, one of them by a template's argument, beside one that does not.
#include <cooperative_groups.h>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) pairs(unsigned *found) {
  found[0] = cg::this_cluster().num_blocks();
}
__global__ void alone(unsigned *found) { found[1] = cg::this_cluster().num_blocks(); }
template <int Wide, int High> __global__ void __cluster_dims__(Wide, High) wide(unsigned *found) {
  if (cg::this_cluster().block_rank() == 0) {
    found[2] = gridDim.z;
    found[3] = cg::this_cluster().num_blocks();
  }
}

int main() {
  unsigned *found;
  if (cudaMallocManaged(&found, 4 * sizeof *found) != cudaSuccess) return 2;
  pairs<<<2, 32>>>(found);
  alone<<<2, 32>>>(found);
  wide<2, 2><<<dim3(2, 2), 32>>>(found);
  if (cudaDeviceSynchronize() != cudaSuccess) return 3;
  printf("blocks %u %u %u %u\n", found[0], found[1], found[2], found[3]);
}
