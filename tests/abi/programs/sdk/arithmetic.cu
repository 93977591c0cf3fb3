// Vector sums, matrix products, random numbers and transforms, against the same formulas on the
// host.
#include <cuComplex.h>
#include <stdint.h>

#include "check.h"

namespace {
__global__ void add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void add4(const float4* __restrict__ a, const float4* __restrict__ b, float4* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const float4 x = a[i], y = b[i];
    c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
}
__global__ void saxpy(float s, const float* __restrict__ x, float* y, size_t n) {
  const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(s, x[i], y[i]);
}
__global__ void formula(const double* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = sqrt(x[i]) * exp(-x[i]) + sin(x[i]) / (1.0 + fabs(x[i])) + pow(x[i], 1.5);
}

template <int T>
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float a[T][T], b[T][T + 1];
  const int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x;
  float s = 0;
  for (int k = 0; k < K; k += T) {
    a[threadIdx.y][threadIdx.x] = r < M && k + threadIdx.x < K ? A[r * K + k + threadIdx.x] : 0;
    b[threadIdx.y][threadIdx.x] = c < N && k + threadIdx.y < K ? B[(k + threadIdx.y) * N + c] : 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < T; j++) s += a[threadIdx.y][j] * b[j][threadIdx.x];
    __syncthreads();
  }
  if (r < M && c < N) C[r * N + c] = s;
}

__device__ uint4 philox(uint4 c, uint2 k) {
#pragma unroll
  for (int i = 0; i < 10; i++) {
    const uint32_t h0 = __umulhi(0xD2511F53, c.x), l0 = 0xD2511F53 * c.x;
    const uint32_t h1 = __umulhi(0xCD9E8D57, c.z), l1 = 0xCD9E8D57 * c.z;
    c = make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
    k.x += 0x9E3779B9;
    k.y += 0xBB67AE85;
  }
  return c;
}
uint4 philox_host(uint4 c, uint2 k) {
  for (int i = 0; i < 10; i++) {
    const uint64_t p = (uint64_t)0xD2511F53 * c.x, q = (uint64_t)0xCD9E8D57 * c.z;
    c = make_uint4((uint32_t)(q >> 32) ^ c.y ^ k.x, (uint32_t)q, (uint32_t)(p >> 32) ^ c.w ^ k.y,
                   (uint32_t)p);
    k.x += 0x9E3779B9;
    k.y += 0xBB67AE85;
  }
  return c;
}
__global__ void draw(uint4* out, uint64_t seed) {
  const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
  out[i] = philox(make_uint4(7, 0, (uint32_t)i, (uint32_t)(i >> 32)),
                  make_uint2((uint32_t)seed, (uint32_t)(seed >> 32)));
}

__global__ void transform(float2* x, int log_size) {
  extern __shared__ float2 s[];
  const int n = 1 << log_size, t = threadIdx.x;
  for (int i = t; i < n; i += blockDim.x) s[__brev(i) >> (32 - log_size)] = x[blockIdx.x * n + i];
  for (int len = 2; len <= n; len <<= 1) {
    __syncthreads();
    for (int i = t; i < n / 2; i += blockDim.x) {
      const int g = i / (len / 2), k = i % (len / 2);
      float sine, cosine;
      sincospif(-2.f * k / len, &sine, &cosine);
      const float2 a = s[g * len + k], b = s[g * len + k + len / 2];
      const float2 m = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
      s[g * len + k] = make_float2(a.x + m.x, a.y + m.y);
      s[g * len + k + len / 2] = make_float2(a.x - m.x, a.y - m.y);
    }
  }
  __syncthreads();
  for (int i = t; i < n; i += blockDim.x) x[blockIdx.x * n + i] = s[i];
}
__global__ void complex_products(cuDoubleComplex* a, const cuDoubleComplex* b) {
  const int i = threadIdx.x;
  a[i] = cuCdiv(cuCmul(a[i], b[i]), b[i + 1]);
}
}  // namespace

int check_sums() {
  const int n = 1000;
  const auto a = generate<float>(n, [](int) { return random_float(); });
  const auto b = generate<float>(n, [](int) { return random_float(); });
  Device<float> x(a), y(b), z(n), q(n);
  add<<<8, 128>>>(x, y, z, n);
  add4<<<2, 64>>>((float4*)(float*)x, (float4*)(float*)y, (float4*)(float*)q, n / 4);
  int bad = wrong(z.read(), [&](int i) { return a[i] + b[i]; });
  bad += wrong(q.read(), [&](int i) { return a[i] + b[i]; });
  saxpy<<<4, 256>>>(3.0f, x, y, n);
  bad += wrong(y.read(), [&](int i) { return fmaf(3.0f, a[i], b[i]); });
  const auto d = generate<double>(n, [](int i) { return 0.01 * i; });
  Device<double> u(d), v(n);
  formula<<<8, 128>>>(u, v, n);
  bad += wrong(
      v.read(),
      [&](int i) {
        return sqrt(d[i]) * exp(-d[i]) + sin(d[i]) / (1 + fabs(d[i])) + pow(d[i], 1.5);
      },
      1e-15);
  return report("sums", bad);
}

int check_products() {
  const int m = 50, n = 70, k = 33;
  const auto a = generate<float>(m * k, [](int) { return rand() % 8; });
  const auto b = generate<float>(k * n, [](int) { return rand() % 8; });
  Device<float> x(a), y(b), z(m * n);
  tiled<16><<<dim3(5, 4), dim3(16, 16)>>>(x, y, z, m, n, k);
  return report("products", wrong(z.read(), [&](int i) {
                  float s = 0;
                  for (int j = 0; j < k; j++) s += a[i / n * k + j] * b[j * n + i % n];
                  return s;
                }));
}

int check_random_numbers() {
  Device<uint4> out(256);
  draw<<<2, 128>>>(out, 0x123456789abcull);
  const auto got = out.read();
  int bad = 0;
  for (int i = 0; i < 256; i++) {
    const uint4 want = philox_host(make_uint4(7, 0, i, 0), make_uint2(0x56789abc, 0x1234));
    bad += want.x != got[i].x || want.y != got[i].y || want.z != got[i].z || want.w != got[i].w;
  }
  return report("random numbers", bad);
}

int check_transforms() {
  const int n = 256;
  std::vector<float2> in(2 * n);
  for (auto& v : in) v = make_float2(random_float() - 0.5f, random_float() - 0.5f);
  Device<float2> x(in);
  transform<<<2, 64, n * sizeof(float2)>>>(x, 8);
  const auto got = x.read();
  int bad = 0;
  for (int i = 0; i < 2 * n; i++) {
    double re = 0, im = 0;
    for (int j = 0; j < n; j++) {
      const double w = -2 * M_PI * (double)(i % n) * j / n;
      const float2 v = in[i / n * n + j];
      re += v.x * cos(w) - v.y * sin(w);
      im += v.x * sin(w) + v.y * cos(w);
    }
    bad += fabs(re - got[i].x) > 2e-4 || fabs(im - got[i].y) > 2e-4;
  }
  std::vector<cuDoubleComplex> a(32), b(33);
  for (auto& v : a) v = make_cuDoubleComplex(random_float(), random_float());
  for (auto& v : b) v = make_cuDoubleComplex(random_float() + 0.5, random_float());
  Device<cuDoubleComplex> p(a), q(b);
  complex_products<<<1, 32>>>(p, q);
  const auto c = p.read();
  for (int i = 0; i < 32; i++) {
    const cuDoubleComplex back = cuCmul(c[i], b[i + 1]), want = cuCmul(a[i], b[i]);
    bad += fabs(back.x - want.x) > 1e-14 || fabs(back.y - want.y) > 1e-14;
  }
  const auto large = make_cuDoubleComplex(3e300, -4e300), small = make_cuDoubleComplex(0, 2e-300);
  const auto one = cuCdiv(large, large), turned = cuCdiv(small, small);
  bad += one.x != 1 || one.y != 0 || turned.x != 1 || turned.y != 0;
  bad += fabs(cuCabs(large) / 5e300 - 1) > 1e-15 || cuCabs(small) != 2e-300;
  bad += cuCabsf(make_cuFloatComplex(3e30f, 4e30f)) != 5e30f;
  return report("transforms", bad);
}
