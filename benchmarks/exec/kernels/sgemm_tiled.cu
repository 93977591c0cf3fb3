/* C = A * B, n x n and row-major, by square tiles in shared memory. Blocks of one tile. */
#include "cuda.h"

#define TILED(NAME, TILE)                                                                        \
  extern "C" __global__ void NAME(const float *a, const float *b, float *c, int n) {             \
    __shared__ float left[TILE][TILE], right[TILE][TILE];                                        \
    int x = threadIdx.x, y = threadIdx.y;                                                        \
    int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;                             \
    float sum = 0.0f;                                                                            \
    for (int k = 0; k < n; k += TILE) {                                                          \
      left[y][x] = a[row * n + k + x];                                                           \
      right[y][x] = b[(k + y) * n + column];                                                     \
      __syncthreads();                                                                           \
      for (int i = 0; i < TILE; i++) sum += left[y][i] * right[i][x];                            \
      __syncthreads();                                                                           \
    }                                                                                            \
    c[row * n + column] = sum;                                                                   \
  }

TILED(sgemm_tiled16, 16)
TILED(sgemm_tiled32, 32)
