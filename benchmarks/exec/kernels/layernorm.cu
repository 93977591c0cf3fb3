/* y = (x - mean) / sqrt(variance + 1e-5) * gamma + beta of each row; a block of 256 threads per row. */
#include "device.h"

__device__ __forceinline__ float total(float value, float *shared) {
#pragma unroll
  for (int lanes = 16; lanes; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < 8; warp++) sum += shared[warp];
  return sum;
}

extern "C" __global__ void layernorm(const float *x, const float *gamma, const float *beta, float *y,
                                     int columns) {
  __shared__ float sums[8], squares[8];
  const float *row = x + (long)blockIdx.x * columns;
  float sum = 0, square = 0;
  for (int i = threadIdx.x; i < columns; i += 256) sum += row[i];
  float mean = total(sum, sums) / columns;
  for (int i = threadIdx.x; i < columns; i += 256) {
    float apart = row[i] - mean;
    square = fmaf(apart, apart, square);
  }
  float scale = rsqrtf(total(square, squares) / columns + 1e-5f);
  for (int i = threadIdx.x; i < columns; i += 256)
    y[(long)blockIdx.x * columns + i] = fmaf((row[i] - mean) * scale, gamma[i], beta[i]);
}
