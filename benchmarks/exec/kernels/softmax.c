/* Softmax of each row of 1024 columns, with 2^x for e^x. */
#include <math.h>

void softmax(const float *restrict in, float *restrict out, int rows) {
#pragma omp parallel for
  for (int r = 0; r < rows; r++) {
    const float *x = in + 1024 * r;
    float *y = out + 1024 * r, most = -3.4e38f, sum = 0.0f;
    for (int i = 0; i < 1024; i++) most = fmaxf(most, x[i]);
    for (int i = 0; i < 1024; i++) sum += y[i] = exp2f((x[i] - most) * 1.44269504f);
    float scale = 1.0f / sum;
    for (int i = 0; i < 1024; i++) y[i] *= scale;
  }
}
