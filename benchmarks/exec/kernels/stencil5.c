/* Five-point stencil on an n x n grid; edges are unchanged. */
void stencil5(const float *restrict in, float *restrict out, int n) {
#pragma omp parallel for
  for (int y = 1; y < n - 1; y++)
    for (int x = 1; x < n - 1; x++) {
      int i = y * n + x;
      out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n]);
    }
}
