/* The same flash attention: blocks of 64 queries against 32 keys at a time. */
#include <math.h>

enum { DEPTH = 64, KEYS = 32, QUERIES = 64 };

void attention(const float *restrict q, const float *restrict k, const float *restrict v,
               float *restrict out, int sequence, int heads) {
#pragma omp parallel for collapse(2) schedule(dynamic, 4)
  for (int head = 0; head < heads; head++)
    for (int block = 0; block < sequence / QUERIES; block++) {
      const float *keys = k + (long)head * sequence * DEPTH;
      const float *values = v + (long)head * sequence * DEPTH;
      const float *queries = q + ((long)head * sequence + block * QUERIES) * DEPTH;
      float query[DEPTH][QUERIES], sum[DEPTH][QUERIES], scores[KEYS][QUERIES];
      float greatest[QUERIES], weight[QUERIES];
      for (int r = 0; r < QUERIES; r++) {
        greatest[r] = -1e30f, weight[r] = 0;
        for (int i = 0; i < DEPTH; i++) query[i][r] = queries[r * DEPTH + i] * 0.125f, sum[i][r] = 0;
      }
      for (int begin = 0; begin < sequence; begin += KEYS) {
        float top[QUERIES], shrink[QUERIES];
        for (int r = 0; r < QUERIES; r++) top[r] = greatest[r];
        for (int j = 0; j < KEYS; j++) {
          float score[QUERIES] = {0};
          for (int i = 0; i < DEPTH; i++)
            for (int r = 0; r < QUERIES; r++)
              score[r] += query[i][r] * keys[(begin + j) * DEPTH + i];
          for (int r = 0; r < QUERIES; r++) {
            scores[j][r] = score[r];
            top[r] = top[r] > score[r] ? top[r] : score[r];
          }
        }
        for (int r = 0; r < QUERIES; r++) {
          shrink[r] = expf(greatest[r] - top[r]);
          greatest[r] = top[r];
          weight[r] *= shrink[r];
        }
        for (int j = 0; j < KEYS; j++)
          for (int r = 0; r < QUERIES; r++) {
            scores[j][r] = expf(scores[j][r] - greatest[r]);
            weight[r] += scores[j][r];
          }
        for (int i = 0; i < DEPTH; i++) {
          float total[QUERIES];
          for (int r = 0; r < QUERIES; r++) total[r] = sum[i][r] * shrink[r];
          for (int j = 0; j < KEYS; j++)
            for (int r = 0; r < QUERIES; r++)
              total[r] += scores[j][r] * values[(begin + j) * DEPTH + i];
          for (int r = 0; r < QUERIES; r++) sum[i][r] = total[r];
        }
      }
      float *to = out + ((long)head * sequence + block * QUERIES) * DEPTH;
      for (int r = 0; r < QUERIES; r++)
        for (int i = 0; i < DEPTH; i++) to[r * DEPTH + i] = sum[i][r] / weight[r];
    }
}
