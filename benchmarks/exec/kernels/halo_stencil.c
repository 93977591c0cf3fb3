/* The same convolution; the edge columns are processed separately, so that the others are
   vectors. */
const float factors[9] = {.0625f, .125f, .0625f, .125f, .25f, .125f, .0625f, .125f, .0625f};

static inline float pixel(const float *a, const float *r, const float *b, int left, int x, int right) {
  const float *rows[3] = {a, r, b};
  float sum = 0;
  for (int j = 0; j < 3; j++)
    sum += factors[3 * j] * rows[j][left] + factors[3 * j + 1] * rows[j][x] +
           factors[3 * j + 2] * rows[j][right];
  return sum;
}

void halo_stencil(const float *restrict in, float *restrict out, int width, int height) {
#pragma omp parallel for schedule(static)
  for (int y = 0; y < height; y++) {
    const float *row = in + (long)y * width, *above = y == 0 ? row : row - width;
    const float *below = y == height - 1 ? row : row + width;
    float *to = out + (long)y * width;
    to[0] = pixel(above, row, below, 0, 0, 1);
    for (int x = 1; x < width - 1; x++) to[x] = pixel(above, row, below, x - 1, x, x + 1);
    to[width - 1] = pixel(above, row, below, width - 2, width - 1, width - 1);
  }
}
