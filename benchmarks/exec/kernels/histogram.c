/* Count of each byte value: each thread counts separately, in four sets of bins, so that equal
 * neighbours do not wait for each other. */
#include <string.h>

void histogram(const unsigned char *restrict in, int *restrict bins, int n) {
#pragma omp parallel
  {
    int mine[4][256];
    memset(mine, 0, sizeof mine);
#pragma omp for
    for (int i = 0; i < n / 4; i++)
      for (int j = 0; j < 4; j++) mine[j][in[4 * i + j]]++;
#pragma omp single nowait
    for (int i = n / 4 * 4; i < n; i++) mine[0][in[i]]++;
#pragma omp critical
    for (int b = 0; b < 256; b++) bins[b] += mine[0][b] + mine[1][b] + mine[2][b] + mine[3][b];
  }
}
