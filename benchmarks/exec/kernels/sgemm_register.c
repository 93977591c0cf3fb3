/* C = A * B, n x n and row-major, in tiles of 128 x 128, each in pieces of 8 rows and 64 columns
 * that stay in registers. */
void sgemm_register(const float *restrict a, const float *restrict b, float *restrict c, int n) {
#pragma omp parallel for collapse(2)
  for (int top = 0; top < n; top += 128)
    for (int left = 0; left < n; left += 128)
      for (int row = top; row < top + 128; row += 8)
        for (int column = left; column < left + 128; column += 32) {
          float sum[8][32] = {0};
          for (int k = 0; k < n; k++)
            for (int i = 0; i < 8; i++)
              for (int j = 0; j < 32; j++)
                sum[i][j] += a[(row + i) * n + k] * b[k * n + column + j];
          for (int i = 0; i < 8; i++)
            for (int j = 0; j < 32; j++) c[(row + i) * n + column + j] = sum[i][j];
        }
}
