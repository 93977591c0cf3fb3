// Conversions, comparisons and operators of halves and bfloat16, against definitions by doubles.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <climits>

#include "check.h"

namespace {
// What the two headers call the same functions.
#define FORMAT(name, type, pair, word, words, digits)                                         \
  struct name {                                                                               \
    using one = type;                                                                         \
    using two = pair;                                                                         \
    static constexpr int mantissa = digits;                                                   \
    __host__ __device__ static two pack(one a, one b) { return __halves2##words(a, b); }      \
    __host__ __device__ static one of_float(float v, int mode) {                              \
      return mode == 0 ? __float2##word##_rn(v) : mode == 1 ? __float2##word##_rd(v)          \
             : mode == 2 ? __float2##word##_ru(v) : __float2##word##_rz(v);                   \
    }                                                                                         \
    __host__ __device__ static one of_integer(long long v, int mode) {                        \
      return mode == 0 ? __ll2##word##_rn(v) : mode == 1 ? __ll2##word##_rd(v)                \
             : mode == 2 ? __ll2##word##_ru(v) : __ll2##word##_rz(v);                         \
    }                                                                                         \
    __host__ __device__ static long long integer(one v, int kind) {                           \
      switch (kind) {                                                                         \
        case 0: return __##word##2int_rn(v);                                                  \
        case 1: return __##word##2int_rd(v);                                                  \
        case 2: return __##word##2int_ru(v);                                                  \
        case 3: return __##word##2int_rz(v);                                                  \
        case 4: return __##word##2uint_rz(v);                                                 \
        case 5: return __##word##2short_rn(v);                                                \
        case 6: return __##word##2ushort_rn(v);                                               \
        case 7: return __##word##2ll_ru(v);                                                   \
        case 8: return __##word##2ull_rd(v) >> 1;                                             \
        case 9: return __##word##2char_rz(v);                                                 \
        default: return __##word##2uchar_rz(v);                                               \
      }                                                                                       \
    }                                                                                         \
    __host__ __device__ static float mixed(two a, two b) {                                    \
      const two low = __lows2##words(a, b), high = __highs2##words(a, b);                     \
      return float(low.y) * 100 + float(high.y) * 10 + float(__lowhigh2highlow(a).x);         \
    }                                                                                         \
  };
FORMAT(Half, __half, __half2, half, half2, 11)
FORMAT(Brain, __nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162, 8)
constexpr int CASES = 11;

// The value that has `digits` binary digits and is next to v, as the mode says.
double rounded(long double v, int digits, int least, int mode) {
  if (v == 0) return 0;
  int exponent;
  std::frexp(v, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, least));
  const long double count = v / unit;
  return unit * (double)(mode == 0   ? std::nearbyint(count)
                         : mode == 1 ? std::floor(count)
                         : mode == 2 ? std::ceil(count)
                                     : std::trunc(count));
}
template <class F>
__global__ void convert(const float* x, const long long* n, float* floats, float* integers, long long* back) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int mode = 0; mode < 4; mode++) {
    floats[4 * i + mode] = float(F::of_float(x[i], mode));
    integers[4 * i + mode] = float(F::of_integer(n[i], mode));
  }
  for (int kind = 0; kind < CASES; kind++)
    back[CASES * i + kind] = F::integer(F::of_float(x[i], 0), kind);
}
long long clamped(double v, int kind) {
  static const double low[] = {INT_MIN, INT_MIN, INT_MIN, INT_MIN, 0, SHRT_MIN, 0, -0x1p63, 0, -128, 0};
  static const double high[] = {INT_MAX, INT_MAX, INT_MAX, INT_MAX, UINT_MAX, SHRT_MAX, USHRT_MAX,
                                0x1p63, 0x1p64, 127, 255};
  static const int modes[] = {0, 1, 2, 3, 3, 0, 0, 2, 1, 3, 3};
  const int mode = modes[kind];
  v = mode == 0 ? nearbyint(v) : mode == 1 ? floor(v) : mode == 2 ? ceil(v) : trunc(v);
  v = std::fmin(std::fmax(v, low[kind]), high[kind]);
  if (kind == 7) return v >= 0x1p63 ? LLONG_MAX : (long long)v;
  if (kind == 8) return v >= 0x1p64 ? LLONG_MAX : (long long)((unsigned long long)v >> 1);
  return (long long)v;
}
template <class F>
int check_conversions(int least, double most, double largest) {
  const int n = 512;
  const auto x = generate<float>(n, [&](int i) {
    const double size = ldexp(1 + i * 7919 % 1000 / 999.0, i % 41 - 26 + (i % 41 > 38 ? 20 : 0));
    return std::fmin(size, most) * (i & 64 ? -1 : 1);
  });
  const auto y = generate<long long>(n, [&](int i) {
    const long long v = (long long)std::fmin(ldexp(1 + i * 31 % 257 / 256.0, i % 62), largest) + i % 3;
    return i & 1 ? -v : v;
  });
  Device<float> a(x), floats(4 * n), integers(4 * n);
  Device<long long> b(y), back(CASES * n);
  convert<F><<<4, 128>>>(a, b, floats, integers, back);
  int bad = wrong(floats.read(), [&](int i) { return rounded(x[i / 4], F::mantissa, least, i % 4); });
  bad += wrong(integers.read(), [&](int i) { return rounded(y[i / 4], F::mantissa, least, i % 4); });
  const auto got = back.read();
  for (int i = 0; i < CASES * n; i++) {
    const double v = rounded(x[i / CASES], F::mantissa, least, 0);
    bad += got[i] != clamped(v, i % CASES);
    bad += got[i] != F::integer(F::of_float(x[i / CASES], 0), i % CASES);  // the host's
  }
  return bad;
}
template <class F>
__host__ __device__ void combine(float* out) {
  using one = typename F::one;
  using two = typename F::two;
  const one nan = one(NAN), big = one(3.0f), small = one(-0.5f);
  two pair = F::pack(big, small);
  pair += F::pack(one(1.0f), one(1.0f));
  out[0] = float(pair.x) * 10 + float(pair.y);  // 40.5
  pair *= pair, pair -= F::pack(one(0.25f), one(0.25f)), pair /= F::pack(one(2.0f), one(0.5f));
  out[1] = float(pair.x) + float(pair.y);  // 7.875
  one counter = 3;
  out[2] = float(counter++) * 100 + float(++counter) * 10 + float(counter--) + float(--counter);  // 358
  out[3] = (pair == pair) + 2 * (pair != pair) + 4 * (F::pack(small, small) < pair) + 8 * (F::pack(nan, big) == F::pack(nan, big));
  out[4] = float(__hadd_sat(big, big)) + 2 * float(__hsub_sat(small, big)) + 4 * float(__hmul_sat(nan, big)) +
           8 * float(__hfma_sat(small, small, one(0.5f)));  // 1 + 0 + 0 + 6
  out[5] = __hltu(nan, big) + 2 * __hequ(big, small) + 4 * __hgeu(big, small) + 8 * __hleu(big, nan) +
           16 * __hgtu(small, big);  // 1 + 4 + 8
  out[6] = __hgt2_mask(F::pack(big, small), F::pack(small, big)) == 0xffffu &&
           __hneu2_mask(F::pack(big, nan), F::pack(big, nan)) == 0xffff0000u;
  out[7] = __hisnan(__hmax_nan(nan, big)) + 2 * (float(__hmax(nan, big)) == 3) + 4 * __hisnan(__hmin_nan(big, nan)) +
           8 * float(__hmin_nan(big, one(1.0f)));  // 15
  const two product = __hcmadd(F::pack(one(1.0f), one(2.0f)), F::pack(big, one(4.0f)), F::pack(one(1.0f), one(1.0f)));
  out[8] = float(product.x) * 100 + float(product.y);  // -4, 11
  out[9] = F::mixed(F::pack(one(1.0f), one(2.0f)), F::pack(one(3.0f), one(4.0f)));  // 342
  out[10] = float(one(12L)) + float(one(7UL)) + float(+big) + float((-F::pack(big, big)).y);  // 19
  out[11] = __hbequ2(F::pack(nan, big), F::pack(big, big)) + 2 * __hbltu2(F::pack(big, big), F::pack(big, big));
  out[12] = float(__hisnan2(F::pack(nan, big)).x) + 2 * float(__hisnan2(F::pack(nan, big)).y);  // 1
  out[13] = float(__hfma2_relu(F::pack(small, big), F::pack(big, big), F::pack(small, big)).x);  // 0
}
template <class F>
__global__ void combined(float* out, typename F::one* ones, typename F::two* twos) {
  combine<F>(out);
  __stcg(ones, typename F::one(2.5f));
  __stwt(twos, F::pack(typename F::one(1.5f), typename F::one(4.0f)));
  __threadfence();
  out[14] = float(__ldcg(ones)) + float(__ldcv(twos).y) + float(htanh_approx(typename F::one(0.0f)));
}
template <class F>
__global__ void read_only(const typename F::one* ones, const typename F::two* twos, float* out) {
  out[0] = float(__ldg(ones)) + float(__ldg(twos).x);
}
template <class F>
int check_operators() {
  const float wanted[] = {40.5f, 7.875f, 358, 5, 7, 13, 1, 15, -389, 342, 19, 1, 1, 0, 6.5f};
  Device<float> out(15), more(1);
  Device<typename F::one> ones(1);
  Device<typename F::two> twos(1);
  combined<F><<<1, 1>>>(out, ones, twos);
  read_only<F><<<1, 1>>>(ones, twos, more);
  int bad = wrong(out.read(), [&](int i) { return wanted[i]; });
  bad += more.read()[0] != 4;
  std::vector<float> here(14);
  combine<F>(here.data());
  return bad + wrong(here, [&](int i) { return wanted[i]; });
}

constexpr float BOUNDS[] = {0.0f, -0.0f, 1.0f, -1.0f, 3e38f, -3e38f, INFINITY, -INFINITY, NAN};
constexpr int N = sizeof BOUNDS / sizeof *BOUNDS;
template <class F>
__host__ __device__ float fused(float a, float b, float c) {
  using one = typename F::one;
  return float(__hfma(one(a), one(b), one(c)));
}
template <class F>
__global__ void all_fused(const float* v, float* out) {
  out[(blockIdx.x * N + blockIdx.y) * N + threadIdx.x] = fused<F>(v[blockIdx.x], v[blockIdx.y], v[threadIdx.x]);
}
// Infinities, NaN and signed zeros, in a device's code and in the host's.
template <class F>
int check_fused() {
  using one = typename F::one;
  Device<float> out(N * N * N), v(std::vector<float>(BOUNDS, BOUNDS + N));
  all_fused<F><<<dim3(N, N), N>>>(v, out);
  const std::vector<float> got = out.read();
  int bad = 0;
  for (int i = 0; i < N * N * N; i++) {
    const float a = BOUNDS[i / (N * N)], b = BOUNDS[i / N % N], c = BOUNDS[i % N];
    const float wanted = float(one(std::fma(double(float(one(a))), double(float(one(b))), double(float(one(c))))));
    for (const float value : {got[i], fused<F>(a, b, c)})
      bad += std::isnan(wanted) ? !std::isnan(value) : value != wanted || std::signbit(value) != std::signbit(wanted);
  }
  return bad;
}
}  // namespace

int main() {
  int bad = report("halves", check_conversions<Half>(-24, 60000, 60000) + check_operators<Half>() + check_fused<Half>());
  bad += report("bfloat16", check_conversions<Brain>(-133, 1e30, 0x1p62) + check_operators<Brain>() + check_fused<Brain>());
  bad += CUDART_ONE_FP16 != __half(1.0f) || CUDART_MAX_NORMAL_FP16 != __half(65504.0f);
  bad += !__hisinf(CUDART_INF_BF16) || !__hisnan(CUDART_NAN_BF16) || float(__nv_half(CUDART_NEG_ZERO_FP16)) != 0;
  return bad != 0;
}
