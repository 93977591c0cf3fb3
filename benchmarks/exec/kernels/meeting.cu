/* The cost of synchronisation: consecutive barriers with one and with eight values that are live
 * across them, and sums of a block. */
#include "device.h"

template <int VALUES>
__device__ __forceinline__ void meet(const float *in, float *out, int times) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x[VALUES];
#pragma unroll
  for (int j = 0; j < VALUES; j++) x[j] = in[i] + j;
  for (int t = 0; t < times; t++) {
#pragma unroll
    for (int j = 0; j < VALUES; j++) x[j] = fmaf(x[j], 0.5f, 1.0f);
    __syncthreads();
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < VALUES; j++) sum += x[j];
  out[i] = sum;
}

extern "C" __global__ void meet_1(const float *in, float *out, int times) { meet<1>(in, out, times); }
extern "C" __global__ void meet_8(const float *in, float *out, int times) { meet<8>(in, out, times); }

template <int THREADS>
__device__ __forceinline__ void sum_of_block(const float *in, float *out) {
  __shared__ float sums[THREADS];
  int t = threadIdx.x;
  sums[t] = in[(long)blockIdx.x * THREADS + t];
  __syncthreads();
#pragma unroll
  for (int s = THREADS / 2; s > 0; s /= 2) {
    if (t < s) sums[t] += sums[t + s];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = sums[0];
}

extern "C" __global__ void sum_256(const float *in, float *out) { sum_of_block<256>(in, out); }
extern "C" __global__ void sum_1024(const float *in, float *out) { sum_of_block<1024>(in, out); }

/* The same sum by shuffles: in each warp, then in the first warp. */
template <int THREADS>
__device__ __forceinline__ void sum_of_warps(const float *in, float *out) {
  __shared__ float sums[32];
  int t = threadIdx.x, lane = t % 32;
  float x = in[(long)blockIdx.x * THREADS + t];
#pragma unroll
  for (int s = 16; s > 0; s /= 2) x += __shfl_down_sync(0xffffffffu, x, s);
  if (lane == 0) sums[t / 32] = x;
  __syncthreads();
  if (t >= 32) return;
  x = lane < THREADS / 32 ? sums[lane] : 0;
#pragma unroll
  for (int s = 16; s > 0; s /= 2) x += __shfl_down_sync(0xffffffffu, x, s);
  if (t == 0) out[blockIdx.x] = x;
}

extern "C" __global__ void warp_sum_256(const float *in, float *out) { sum_of_warps<256>(in, out); }
extern "C" __global__ void warp_sum_1024(const float *in, float *out) { sum_of_warps<1024>(in, out); }
