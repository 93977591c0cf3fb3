/* C = A * B, n x n and row-major, in tiles of 128 x 128, 8 x 8 elements per work-item. Groups of
 * 16 x 16. */

__kernel void sgemm_register(__global const float *a, __global const float *b, __global float *c,
                             int n) {
  __local float left[8][128], right[8][128];
  int x = get_local_id(0), y = get_local_id(1), t = y * 16 + x;
  int row = get_group_id(1) * 128, column = get_group_id(0) * 128;
  float sum[8][8];
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) sum[i][j] = 0.0f;
  for (int k = 0; k < n; k += 8) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      left[t % 2 * 4 + i][t / 2] = a[(row + t / 2) * n + k + t % 2 * 4 + i];
      right[t / 32][t % 32 * 4 + i] = b[(k + t / 32) * n + column + t % 32 * 4 + i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int p = 0; p < 8; p++) {
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] += left[p][y * 8 + i] * right[p][x * 8 + j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) c[(row + y * 8 + i) * n + column + x * 8 + j] = sum[i][j];
}
