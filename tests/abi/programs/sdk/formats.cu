// Floats of 8 bits, each value and each tie between two, on the device as on the host; and what
// NVIDIA's libraries of templates use of the other small formats.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "check.h"

namespace {
template <class F>
__host__ __device__ unsigned int convert(float x, unsigned int code) {
  F value = F(x), known;
  known.__x = (__nv_fp8_storage_t)code;
  return value.__x | (unsigned int)__nv_cvt_float_to_fp8(x, __NV_NOSAT, F::kind) << 8 |
         (unsigned int)F((float)known).__x << 16;
}
template <class F>
__global__ void conversions(const float* x, unsigned int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = convert<F>(x[i], i & 255);
}
// The value of a positive code by the format's definition.
double value(int code, int mantissa, int least) {
  const int exponent = code >> mantissa, rest = code & ((1 << mantissa) - 1);
  return ldexp(exponent ? rest + (1 << mantissa) : rest, (exponent ? exponent - 1 : 0) + least - mantissa);
}
template <class F>
int check_format(int mantissa, int least, int largest, unsigned int infinite) {
  const int n = 512;
  std::vector<float> x(n);
  std::vector<unsigned int> saturated(n), other(n);
  for (int i = 0; i < n; i++) {  // even: a value itself; odd: the tie above it, to the even code
    const int code = i / 2 % 128, sign = i / 256 << 7;
    const bool fits = code <= largest, rounds_up = i % 2 && code % 2;
    const double low = value(code, mantissa, least), high = value(code + 1, mantissa, least);
    x[i] = (float)(i % 2 ? (low + high) / 2 : low) * (sign ? -1 : 1);
    const int rounded = code + rounds_up;
    saturated[i] = sign | (fits && rounded <= largest ? rounded : largest);
    other[i] = sign | (fits && rounded <= largest ? rounded : infinite);
  }
  x[2 * 127] = x[2 * 127 + 256] = NAN;
  saturated[2 * 127] = saturated[2 * 127 + 256] = 0x7f;
  other[2 * 127] = other[2 * 127 + 256] = 0x7f;
  Device<float> input(x);
  Device<unsigned int> output(n);
  conversions<F><<<2, 256>>>(input, output);
  const auto got = output.read();
  int bad = 0;
  for (int i = 0; i < n; i++) {
    const unsigned int code = i & 255;
    bad += got[i] != convert<F>(x[i], code);
    bad += (got[i] & 255) != saturated[i] || (got[i] >> 8 & 255) != other[i];
    if ((int)(code & 127) <= largest) bad += (got[i] >> 16 & 255) != code;
  }
  return bad;
}
__global__ void others(float* out) {
  const __half2 pair = __halves2half2(__half(1.5f), __half(-INFINITY));
  const __nv_bfloat16 brain = __nv_bfloat16(INFINITY);
  out[0] = (float)pair.x;
  out[1] = (float)(10 * __hisinf(pair.x) + __hisinf(pair.y));
  out[2] = (float)(__hisinf(brain) * 4 + __hisinf(-brain) * 2);
  const float4 four = (float4)__nv_fp8x4_e5m2(make_float4(1.1f, -2.9f, 1e9f, 0.25f));
  out[3] = four.x * 1000 + four.y * 100 + four.w;
  out[4] = four.z;
  const float2 two = (float2)__nv_fp8x2_e4m3(pair);
  out[5] = two.x;
  out[6] = two.y;
  const float powers[] = {3.0f, 4.0f, -2.5f, 6e-39f};
  for (int i = 0; i < 4; i++) {
    out[8 + i] = (float)__nv_fp8_e8m0(powers[i]);
    out[12 + i] = __nv_cvt_float_to_e8m0(powers[i], __NV_NOSAT, cudaRoundNearest);
    out[16 + i] = __nv_cvt_double_to_e8m0(powers[i] * 0x1p126, __NV_NOSAT, cudaRoundZero);
  }
  const __half2 nans = __halves2half2(__half(NAN), __half(1.0f));
  const __nv_bfloat16 other = __nv_bfloat16(NAN);
  out[20] = __hne(nans.x, pair.x) + 2 * __hneu(nans.x, pair.x) + 4 * (nans.x != pair.x) +
            8 * __hne(pair.x, pair.y) + 16 * __hbne2(nans, pair) + 32 * __hbneu2(nans, pair);
  out[21] = __hne(other, brain) + 2 * __hneu(other, brain) + 4 * (other != brain);
  out[7] = (float)((int)__nv_fp8_e4m3(-2.75f) + (int)(unsigned char)__nv_fp8_e5m2(1e4f));
}
}  // namespace

int check_formats() {
  int bad = check_format<__nv_fp8_e4m3>(3, -6, 0x7e, 0x7f);
  bad += check_format<__nv_fp8_e5m2>(2, -14, 0x7b, 0x7c);
  Device<float> out(22);
  others<<<1, 1>>>(out);
  const float want[] = {1.5f, -1, 2,   1000 - 300 + 0.25f, 57344, 1.5f, -448, -2 + 255, 4, 4,
                        4,    0x1p-126f, 129, 129, 128, 0, 254, 254, 254, 126,
                        2 + 4 + 8 + 32, 2 + 4};
  bad += wrong(out.read(), [&](size_t i) { return want[i]; });
  return report("small formats", bad);
}
