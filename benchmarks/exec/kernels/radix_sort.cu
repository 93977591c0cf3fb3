/* One pass of a stable radix sort of 32-bit keys by eight bits: count, scan, scatter. A block of 256
 * threads has 4096 keys, a warp 512 neighbours among them. counts is [256 digits][blocks]. */
#include "device.h"

enum { WARPS = 8, ITEMS = 16, DIGITS = 256, TILE = 32 * WARPS * ITEMS };

extern "C" __global__ void radix_count(const unsigned *keys, unsigned *counts, int n, int shift) {
  __shared__ unsigned found[DIGITS];
  found[threadIdx.x] = 0;
  __syncthreads();
  int begin = blockIdx.x * TILE;
  for (int i = threadIdx.x; i < TILE; i += 256)
    if (begin + i < n) atomicAdd((int *)&found[keys[begin + i] >> shift & 255], 1);
  __syncthreads();
  counts[threadIdx.x * gridDim.x + blockIdx.x] = found[threadIdx.x];
}

/* Replaces each element by the sum of those before it, in place, with one block of 1024 threads. */
extern "C" __global__ void radix_scan(unsigned *counts, int n) {
  __shared__ int warps[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = 0;
  for (int begin = 0; begin < n; begin += 1024) {
    int i = begin + threadIdx.x, own = i < n ? (int)counts[i] : 0, sum = own;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      int lower = __shfl_up_sync(0xffffffffu, sum, lanes);
      if (lane >= lanes) sum += lower;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
      int all = warps[lane];
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2) {
        int lower = __shfl_up_sync(0xffffffffu, all, lanes);
        if (lane >= lanes) all += lower;
      }
      warps[lane] = all;
    }
    __syncthreads();
    if (i < n) counts[i] = before + sum - own + (warp ? warps[warp - 1] : 0);
    before += warps[31];
    __syncthreads();
  }
}

extern "C" __global__ void radix_scatter(const unsigned *keys, unsigned *sorted,
                                         const unsigned *offsets, int n, int shift) {
  __shared__ unsigned next[WARPS][DIGITS];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int w = 0; w < WARPS; w++) next[w][threadIdx.x] = 0;
  __syncthreads();
  int begin = blockIdx.x * TILE + warp * 32 * ITEMS + lane;
  for (int item = 0; item < ITEMS; item++)
    if (begin + item * 32 < n) atomicAdd((int *)&next[warp][keys[begin + item * 32] >> shift & 255], 1);
  __syncthreads();
  unsigned where = offsets[threadIdx.x * gridDim.x + blockIdx.x];
  for (int w = 0; w < WARPS; w++) {
    unsigned count = next[w][threadIdx.x];
    next[w][threadIdx.x] = where;
    where += count;
  }
  __syncthreads();
  for (int item = 0; item < ITEMS; item++) {
    int i = begin + item * 32;
    unsigned key = i < n ? keys[i] : 0, digit = i < n ? key >> shift & 255 : 256 + lane;
    unsigned peers = __match_any_sync(0xffffffffu, digit), lower = peers & ((1u << lane) - 1);
    unsigned first = i < n ? next[warp][digit] : 0;
    __syncwarp();
    if (i < n) {
      sorted[first + __popc(lower)] = key;
      if (!lower) next[warp][digit] = first + __popc(peers);
    }
    __syncwarp();
  }
}
