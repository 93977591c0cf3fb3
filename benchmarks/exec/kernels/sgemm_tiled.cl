/* C = A * B, n x n and row-major, by square tiles in local memory. Groups of one tile. */

#define TILED(NAME, TILE)                                                                        \
  __kernel void NAME(__global const float *a, __global const float *b, __global float *c, int n) {\
    __local float left[TILE][TILE], right[TILE][TILE];                                           \
    int x = get_local_id(0), y = get_local_id(1);                                                \
    int column = get_group_id(0) * TILE + x, row = get_group_id(1) * TILE + y;                   \
    float sum = 0.0f;                                                                            \
    for (int k = 0; k < n; k += TILE) {                                                          \
      left[y][x] = a[row * n + k + x];                                                           \
      right[y][x] = b[(k + y) * n + column];                                                     \
      barrier(CLK_LOCAL_MEM_FENCE);                                                              \
      for (int i = 0; i < TILE; i++) sum += left[y][i] * right[i][x];                            \
      barrier(CLK_LOCAL_MEM_FENCE);                                                              \
    }                                                                                            \
    c[row * n + column] = sum;                                                                   \
  }

TILED(sgemm_tiled16, 16)
TILED(sgemm_tiled32, 32)
