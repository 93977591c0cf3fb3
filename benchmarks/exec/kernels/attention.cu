/* softmax(Q K' / 8) V with heads of 64 numbers, as flash attention does it: a thread has one query
 * and its sum, blocks of 64 threads share 32 keys and values at a time, and the softmax is updated
 * for each of these. Q, K, V and the output are [heads][sequence][64]; sequence is a multiple of 64. */
#include "device.h"

enum { DEPTH = 64, KEYS = 32, QUERIES = 64 };

extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *out,
                                     int sequence) {
  __shared__ float keys[KEYS][DEPTH], values[KEYS][DEPTH];
  __shared__ float scores[KEYS][QUERIES];
  long head = (long)blockIdx.y * sequence * DEPTH;
  int row = blockIdx.x * QUERIES + threadIdx.x;
  float query[DEPTH], sum[DEPTH], greatest = -1e30f, weight = 0;
#pragma unroll
  for (int i = 0; i < DEPTH; i++) {
    query[i] = q[head + row * DEPTH + i] * 0.125f;
    sum[i] = 0;
  }
  for (int begin = 0; begin < sequence; begin += KEYS) {
    for (int i = threadIdx.x; i < KEYS * DEPTH; i += QUERIES) {
      keys[i / DEPTH][i % DEPTH] = k[head + begin * DEPTH + i];
      values[i / DEPTH][i % DEPTH] = v[head + begin * DEPTH + i];
    }
    __syncthreads();
    float top = greatest;
#pragma unroll 1
    for (int j = 0; j < KEYS; j++) {
      float score = 0;
#pragma unroll
      for (int i = 0; i < DEPTH; i++) score = fmaf(query[i], keys[j][i], score);
      scores[j][threadIdx.x] = score;
      top = fmaxf(top, score);
    }
    float shrink = __expf(greatest - top);
    greatest = top;
    weight *= shrink;
#pragma unroll
    for (int i = 0; i < DEPTH; i++) sum[i] *= shrink;
#pragma unroll 1
    for (int j = 0; j < KEYS; j++) {
      float share = __expf(scores[j][threadIdx.x] - greatest);
      weight += share;
#pragma unroll
      for (int i = 0; i < DEPTH; i++) sum[i] = fmaf(share, values[j][i], sum[i]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < DEPTH; i++) out[head + row * DEPTH + i] = __fdividef(sum[i], weight);
}
