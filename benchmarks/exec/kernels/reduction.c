/* The sum of n elements. */
void reduction(const float *restrict in, float *restrict out, int n) {
  float sum = 0.0f;
#pragma omp parallel for simd reduction(+ : sum)
  for (int i = 0; i < n; i++) sum += in[i];
  out[0] = sum;
}
