/* C = A * B, n x n and row-major, by square tiles. */
static void tiled(const float *restrict a, const float *restrict b, float *restrict c, int n,
                  const int tile) {
#pragma omp parallel for collapse(2)
  for (int top = 0; top < n; top += tile)
    for (int left = 0; left < n; left += tile) {
      float sum[tile][tile];
      for (int y = 0; y < tile; y++)
        for (int x = 0; x < tile; x++) sum[y][x] = 0.0f;
      for (int k = 0; k < n; k += tile)
        for (int y = 0; y < tile; y++)
          for (int i = 0; i < tile; i++)
            for (int x = 0; x < tile; x++)
              sum[y][x] += a[(top + y) * n + k + i] * b[(k + i) * n + left + x];
      for (int y = 0; y < tile; y++)
        for (int x = 0; x < tile; x++) c[(top + y) * n + left + x] = sum[y][x];
    }
}

void sgemm_tiled16(const float *a, const float *b, float *c, int n) { tiled(a, b, c, n, 16); }
void sgemm_tiled32(const float *a, const float *b, float *c, int n) { tiled(a, b, c, n, 32); }
