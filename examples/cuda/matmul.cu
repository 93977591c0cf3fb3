// A matrix product by tiles in shared memory, and the same by tensor cores in half precision.
//     tessera cc -arch=sm_90 matmul.cu -o matmul && tessera run --board h100-80gb -- ./matmul
#include <mma.h>

#include <cstdio>
#include <vector>

using namespace nvcuda;
const int N = 128, TILE = 16;

__global__ void by_tiles(const float *a, const float *b, float *c) {
  __shared__ float x[TILE][TILE], y[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < N; k += TILE) {
    x[threadIdx.y][threadIdx.x] = a[row * N + k + threadIdx.x];
    y[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * N + column];
    __syncthreads();
    for (int j = 0; j < TILE; j++) sum += x[threadIdx.y][j] * y[j][threadIdx.x];
    __syncthreads();
  }
  c[row * N + column] = sum;
}

__global__ void by_tensor_cores(const half *a, const half *b, float *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < N; k += 16) {
    wmma::load_matrix_sync(x, a + blockIdx.y * 16 * N + k, N);
    wmma::load_matrix_sync(y, b + k * N + blockIdx.x * 16, N);
    wmma::mma_sync(sum, x, y, sum);
  }
  wmma::store_matrix_sync(c + blockIdx.y * 16 * N + blockIdx.x * 16, sum, N, wmma::mem_row_major);
}

template <class T>
T *copy_to_device(const std::vector<T> &values) {
  T *pointer;
  cudaMalloc(&pointer, values.size() * sizeof(T));
  cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return pointer;
}

int main() {
  std::vector<float> a(N * N), b(N * N), c(N * N), d(N * N);
  std::vector<half> ah(N * N), bh(N * N);
  for (int i = 0; i < N * N; i++) {
    a[i] = i % 7 - 3, b[i] = i % 5 - 2;
    ah[i] = half(a[i]), bh[i] = half(b[i]);
  }
  float *out = copy_to_device(c);
  dim3 blocks(N / TILE, N / TILE);
  by_tiles<<<blocks, dim3(TILE, TILE)>>>(copy_to_device(a), copy_to_device(b), out);
  cudaMemcpy(c.data(), out, N * N * sizeof(float), cudaMemcpyDeviceToHost);
  by_tensor_cores<<<blocks, 32>>>(copy_to_device(ah), copy_to_device(bh), out);
  cudaMemcpy(d.data(), out, N * N * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < N * N; i++) {
    float expected = 0;
    for (int k = 0; k < N; k++) expected += a[i / N * N + k] * b[k * N + i % N];
    wrong += c[i] != expected || d[i] != expected;
  }
  printf("%d wrong of %d\n", wrong, N * N);
  return wrong != 0;
}
