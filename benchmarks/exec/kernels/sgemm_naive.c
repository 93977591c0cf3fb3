/* C = A * B, n x n and row-major, in the order of loops that a compiler can vectorise. */
void sgemm_naive(const float *restrict a, const float *restrict b, float *restrict c, int n) {
#pragma omp parallel for
  for (int row = 0; row < n; row++) {
    for (int column = 0; column < n; column++) c[row * n + column] = 0.0f;
    for (int k = 0; k < n; k++)
      for (int column = 0; column < n; column++)
        c[row * n + column] += a[row * n + k] * b[k * n + column];
  }
}
