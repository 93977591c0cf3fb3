/* Prices of European options: call and put from price, strike and years, at one rate and volatility.
 * The normal distribution is Abramowitz and Stegun 26.2.17. */
#include "device.h"

__device__ __forceinline__ float below(float d) {
  float k = __fdividef(1.0f, fmaf(0.2316419f, __builtin_fabsf(d), 1.0f));
  float poly = fmaf(k, 1.330274429f, -1.821255978f);
  poly = fmaf(k, poly, 1.781477937f);
  poly = fmaf(k, poly, -0.356563782f);
  poly = k * fmaf(k, poly, 0.31938153f);
  float tail = 0.39894228f * __expf(-0.5f * d * d) * poly;
  return d > 0 ? 1 - tail : tail;
}

extern "C" __global__ void black_scholes(const float *price, const float *strike, const float *years,
                                         float *call, float *put, float rate, float volatility,
                                         int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = price[i], x = strike[i], t = years[i], spread = volatility * __fsqrt_rn(t);
  float up = fmaf(0.5f * volatility, volatility, rate) * t + __logf(__fdividef(s, x));
  float d1 = __fdividef(up, spread), d2 = d1 - spread;
  float n1 = below(d1), n2 = below(d2), later = x * __expf(-rate * t);
  call[i] = s * n1 - later * n2;
  put[i] = later * (1 - n2) - s * (1 - n1);
}
