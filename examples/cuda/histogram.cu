// How often each byte occurs: a histogram per block in shared memory, then one for the grid.
//     tessera cc histogram.cu -o histogram && tessera run --board h100-80gb -- ./histogram
#include <cstdio>
#include <vector>

__global__ void histogram(const unsigned char *data, int n, unsigned int *counts) {
  __shared__ unsigned int own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&own[data[i]], 1);
  }
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

int main() {
  const int n = 1 << 20;
  std::vector<unsigned char> data(n);
  std::vector<unsigned int> expected(256), got(256);
  for (int i = 0; i < n; i++) expected[data[i] = (unsigned)i * 2654435761u >> 24]++;
  unsigned char *in;
  unsigned int *counts;
  cudaMalloc(&in, n);
  cudaMalloc(&counts, 256 * sizeof(int));
  cudaMemcpy(in, data.data(), n, cudaMemcpyHostToDevice);
  cudaMemset(counts, 0, 256 * sizeof(int));
  histogram<<<32, 256>>>(in, n, counts);
  cudaMemcpy(got.data(), counts, 256 * sizeof(int), cudaMemcpyDeviceToHost);
  printf("%s\n", got == expected ? "right" : "wrong");
  return got != expected;
}
