/* The same sort: four passes by eight bits, each thread counts and scatters its share of the keys. */
#include <omp.h>
#include <stdint.h>

enum { THREADS_AT_MOST = 256 };

static void pass(const uint32_t *restrict keys, uint32_t *restrict sorted, int n, int shift) {
  static uint32_t counts[THREADS_AT_MOST][256];
#pragma omp parallel
  {
    int parts = omp_get_num_threads(), part = omp_get_thread_num();
    long begin = (long)n * part / parts, end = (long)n * (part + 1) / parts;
    uint32_t own[256] = {0}, next[256];
    for (long i = begin; i < end; i++) own[keys[i] >> shift & 255]++;
    for (int d = 0; d < 256; d++) counts[part][d] = own[d];
#pragma omp barrier
    uint32_t before = 0;
    for (int d = 0; d < 256; d++)
      for (int p = 0; p < parts; p++) {
        if (p == part) next[d] = before;
        before += counts[p][d];
      }
    for (long i = begin; i < end; i++) sorted[next[keys[i] >> shift & 255]++] = keys[i];
  }
}

void radix_sort(const uint32_t *keys, uint32_t *one, uint32_t *other, int n) {
  pass(keys, one, n, 0);
  pass(one, other, n, 8);
  pass(other, one, n, 16);
  pass(one, other, n, 24);
}
