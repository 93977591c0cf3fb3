/* The same formulas. */
#include <math.h>

static inline float below(float d) {
  float k = 1.0f / (0.2316419f * fabsf(d) + 1.0f);
  float poly = k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f +
                    k * (-1.821255978f + k * 1.330274429f))));
  float tail = 0.39894228f * expf(-0.5f * d * d) * poly;
  return d > 0 ? 1 - tail : tail;
}

void black_scholes(const float *restrict price, const float *restrict strike,
                   const float *restrict years, float *restrict call, float *restrict put,
                   float rate, float volatility, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; i++) {
    float s = price[i], x = strike[i], t = years[i], spread = volatility * sqrtf(t);
    float d1 = ((0.5f * volatility * volatility + rate) * t + logf(s / x)) / spread;
    float d2 = d1 - spread, n1 = below(d1), n2 = below(d2), later = x * expf(-rate * t);
    call[i] = s * n1 - later * n2;
    put[i] = later * (1 - n2) - s * (1 - n1);
  }
}
