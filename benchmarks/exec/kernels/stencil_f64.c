/* Seven-point stencil in f64 on an n x n x n grid; faces are unchanged. */
void stencil_f64(const double *restrict in, double *restrict out, int n) {
  int m = n * n;
#pragma omp parallel for
  for (int z = 1; z < n - 1; z++)
    for (int y = 1; y < n - 1; y++)
      for (int x = 1; x < n - 1; x++) {
        int i = (z * n + y) * n + x;
        out[i] = 0.4 * in[i] + 0.1 * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - m] + in[i + m]);
      }
}
