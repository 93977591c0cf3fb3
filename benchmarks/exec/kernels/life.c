/* The same rule; the edge columns are processed separately, so that the others are vectors of
   bytes. */
static inline unsigned char cell(const unsigned char *a, const unsigned char *r,
                                 const unsigned char *b, int left, int x, int right) {
  unsigned char around = a[left] + a[x] + a[right] + r[left] + r[right] + b[left] + b[x] + b[right];
  return around == 3 | (around == 2 & r[x]);
}

void life(const unsigned char *restrict now, unsigned char *restrict next, int width, int height) {
#pragma omp parallel for schedule(static)
  for (int y = 0; y < height; y++) {
    const unsigned char *row = now + (long)y * width;
    const unsigned char *above = now + (long)(y == 0 ? height - 1 : y - 1) * width;
    const unsigned char *below = now + (long)(y == height - 1 ? 0 : y + 1) * width;
    unsigned char *to = next + (long)y * width;
    to[0] = cell(above, row, below, width - 1, 0, 1);
    for (int x = 1; x < width - 1; x++) to[x] = cell(above, row, below, x - 1, x, x + 1);
    to[width - 1] = cell(above, row, below, width - 2, width - 1, 0);
  }
}
