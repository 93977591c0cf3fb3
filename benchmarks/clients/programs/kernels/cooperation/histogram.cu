// A histogram with atomic operations on shared memory, then on global memory.
#include "../verify.h"

__global__ void histogram(const unsigned char *x, unsigned *counts, int n) {
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&own[x[i]], 1);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

int main() {
    const int n = 100003;
    Array<unsigned char> x(n);
    Array<unsigned> counts(256);
    fill(x, 0, 200);
    histogram<<<13, 256>>>(x.device, counts.device, n);
    finish();
    counts.download();
    unsigned expected[256] = {};
    for (unsigned char value : x.host) expected[value]++;
    for (int i = 0; i < 256; i++) expect("histogram", counts[i], expected[i]);
    return report();
}
