/* Count of each byte value: in shared memory first, or directly in global memory. */
#include "cuda.h"

extern "C" __global__ void histogram_shared(const unsigned char *in, int *bins, int n) {
  __shared__ int mine[256];
  int t = threadIdx.x;
  mine[t] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[in[i]], 1);
  __syncthreads();
  atomicAdd(&bins[t], mine[t]);
}

extern "C" __global__ void histogram_global(const unsigned char *in, int *bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[in[i]], 1);
}
