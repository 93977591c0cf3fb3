/* The same transforms: Stockham's algorithm by fours, one transform after the other. */
enum { POINTS = 1024 };

typedef struct {
  float x, y;
} pair;

static inline pair times(pair a, pair b) {
  return (pair){a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}

static inline __attribute__((always_inline)) void pass(const pair *restrict from, pair *restrict to,
                                                       const pair *restrict roots, int stride) {
  for (int high = 0; high < 256 / stride; high++) {
    pair r1 = roots[high * stride], r2 = roots[2 * high * stride], r3 = roots[3 * high * stride];
    for (int low = 0; low < stride; low++) {
      int t = high * stride + low, place = low + 4 * stride * high;
      pair a = from[t], b = from[t + 256], c = from[t + 512], d = from[t + 768];
      pair sum = {a.x + c.x, a.y + c.y}, apart = {a.x - c.x, a.y - c.y};
      pair other = {b.x + d.x, b.y + d.y}, turned = {b.y - d.y, d.x - b.x};
      to[place] = (pair){sum.x + other.x, sum.y + other.y};
      to[place + stride] = times((pair){apart.x + turned.x, apart.y + turned.y}, r1);
      to[place + 2 * stride] = times((pair){sum.x - other.x, sum.y - other.y}, r2);
      to[place + 3 * stride] = times((pair){apart.x - turned.x, apart.y - turned.y}, r3);
    }
  }
}

void fft(const pair *restrict in, pair *restrict out, const pair *restrict roots, int batch) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < batch; i++) {
    pair one[POINTS], other[POINTS];
    pass(in + (long)i * POINTS, one, roots, 1);
    pass(one, other, roots, 4);
    pass(other, one, roots, 16);
    pass(one, other, roots, 64);
    pass(other, out + (long)i * POINTS, roots, 256);
  }
}
