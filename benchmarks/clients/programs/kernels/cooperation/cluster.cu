// A cluster of two blocks that read and add to each other's shared memory.
#include <cooperative_groups.h>

#include "../verify.h"

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) exchange(int *a) {
    __shared__ int s[128];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = a[blockIdx.x * 128 + threadIdx.x];
    cluster.sync();
    int *other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
    int value = other[threadIdx.x];
    cluster.sync();
    atomicAdd(other + ((threadIdx.x + 1) & 127), value);
    cluster.sync();
    a[blockIdx.x * 128 + threadIdx.x] = s[threadIdx.x] + cluster.num_blocks();
}

int main() {
    const int n = 512;
    Array<int> a(n);
    fill(a, 0, 1000);
    std::vector<int> before = a.host;
    exchange<<<n / 128, 128>>>(a.device);
    finish();
    a.download();
    for (int i = 0; i < n; i++)
        expect("exchange", a[i], before[i] + before[i / 128 * 128 + (i + 127) % 128] + 2);
    return report();
}
