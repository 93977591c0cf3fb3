/* y = A * x for a sparse A in compressed rows. */
void spmv(const int *restrict start, const int *restrict column, const float *restrict value,
          const float *restrict x, float *restrict y, int rows) {
#pragma omp parallel for
  for (int row = 0; row < rows; row++) {
    float sum = 0.0f;
    for (int i = start[row]; i < start[row + 1]; i++) sum += value[i] * x[column[i]];
    y[row] = sum;
  }
}
