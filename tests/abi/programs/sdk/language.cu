// What the language offers in kernels: printf, the heap, virtual functions, pointers to functions,
// templates, lambdas, constants, tensor cores, sparse matrices, stencils, cache hints.
#include <cassert>
#include <cuda_bf16.h>
#include <mma.h>

#include "check.h"
#include "shared.h"

namespace {
__constant__ float coefficients[9];
__global__ void stencil(const float* in, float* out, int W, int H) {
  __shared__ float t[18][34];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  for (int j = threadIdx.y; j < 18; j += 16)
    for (int i = threadIdx.x; i < 34; i += 32) {
      const int gx = min(max((int)blockIdx.x * 32 + i - 1, 0), W - 1);
      const int gy = min(max((int)blockIdx.y * 16 + j - 1, 0), H - 1);
      t[j][i] = in[gy * W + gx];
    }
  __syncthreads();
  if (x < W && y < H) {
    float s = 0;
    for (int j = 0; j < 3; j++)
      for (int i = 0; i < 3; i++)
        s += coefficients[j * 3 + i] * t[threadIdx.y + j][threadIdx.x + i];
    out[y * W + x] = s;
  }
}
__global__ void sparse(int n, const int* __restrict__ rows, const int* __restrict__ columns,
                       const double* __restrict__ v, const double* __restrict__ x, double* y) {
  const int w = (blockIdx.x * blockDim.x + threadIdx.x) / 32, l = threadIdx.x % 32;
  if (w >= n) return;
  double s = 0;
  for (int j = rows[w] + l; j < rows[w + 1]; j += 32) s += v[j] * __ldg(&x[columns[j]]);
  for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
  if (!l) y[w] = s;
}

struct Base {
  __device__ virtual int f(int x) = 0;
};
struct Next : Base {
  __device__ int f(int x) override { return x + 1; }
};
struct Times : Base {
  int k;
  __device__ int f(int x) override { return x * k; }
};
__device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
typedef int (*function)(int);
__device__ int increment(int x) { return x + 1; }
__device__ int decrement(int x) { return x - 1; }
__device__ function table[2] = {increment, decrement};
__global__ void indirect(int* a) {
  Next d1;
  Times d2;
  d2.k = 3;
  Base* b = (a[0] & 1) ? (Base*)&d1 : (Base*)&d2;
  a[1] = b->f(a[0]) + factorial(a[2]) + table[a[3] & 1](5);
}
__global__ void heap(int* out, int n) {
  int* p = (int*)malloc(n * sizeof(int));
  if (p) {
    memset(p, 0, n * sizeof(int));
    p[n - 1] = 3 + threadIdx.x;
    out[threadIdx.x] = p[0] + p[n - 1];
  }
  free(p);
}
__global__ void hello(int n, float f) {
  if (threadIdx.x == 1) printf("kernel: block %d n=%d f=%.2f %s\n", blockIdx.x, n, f, "text");
  assert(n > 0);
}
template <class T>
__global__ void fill(T* p, T v) {
  p[threadIdx.x] = v;
}
struct Mixed {
  int a;
  double b;
  char c[12];
};
__constant__ double constants[4] = {1, 2, 3, 4};
__global__ void __launch_bounds__(256, 2)
    structures(Mixed s, const __grid_constant__ Mixed s2, float* o) {
  o[threadIdx.x] = s.b + s2.c[threadIdx.x % 12] + constants[s.a & 3] + shared_function(s.a);
}
__global__ void lambda(int* a, int n) {
  auto f = [=] __device__(int x) { return x * n; };
  for (int i = 0; i < n; i++) {
    if (a[i] < 0) continue;
    if (a[i] > 1000) break;
    a[i] = f(a[i]);
  }
}
template <class F>
__global__ void apply(int* a, F f) {
  a[threadIdx.x] = f(a[threadIdx.x]);
}
__global__ void hints(const int4* __restrict__ a, int4* b) {
  const int i = threadIdx.x;
  const int4 x = __ldcg(a + i), y = __ldcs(a + i + 32), z = __ldca(a + i + 64);
  __stcg(b + i, x);
  __stcs(b + i + 32, y);
  __stwt(b + i + 64, z);
  __stwb(b + i + 96, __ldcv(a + i + 96));
}
template <class T>
__global__ void small_hints(const T* a, T* b) {
  const int i = 4 * threadIdx.x;
  __stwb(b + i, __ldca(a + i));
  __stcg(b + i + 1, __ldcg(a + i + 1));
  __stcs(b + i + 2, __ldcs(a + i + 2));
  __stwt(b + i + 3, threadIdx.x & 1 ? __ldcv(a + i + 3) : __ldlu(a + i + 3));
}

using namespace nvcuda;
template <class T, class L>
__global__ void tensor(const T* a, const T* b, float* c, int K, int N) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, L> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  for (int i = 0; i < K; i += 16) {
    wmma::load_matrix_sync(fa, a + i, K);
    wmma::load_matrix_sync(fb, b + i * N, N);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
}
// The second product begins with the first one, and is stored by columns.
template <class L>
__global__ void doubles(const double* a, const double* b, double* c) {
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, L> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
  wmma::load_matrix_sync(fa, a, __is_same(L, wmma::row_major) ? 4 : 8);
  wmma::load_matrix_sync(fb, b, 8);
  wmma::fill_fragment(fc, 0.5);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
  wmma::load_matrix_sync(fc, c, 8, wmma::mem_row_major);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c + 64, fc, 8, wmma::mem_col_major);
}
}  // namespace

int check_memory() {
  const int W = 45, H = 20;
  const float c[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  CHECK(cudaMemcpyToSymbol(coefficients, c, sizeof c));
  const auto in = generate<float>(W * H, [](int i) { return i % 13; });
  Device<float> x(in), y(W * H);
  stencil<<<dim3(2, 2), dim3(32, 16)>>>(x, y, W, H);
  int bad = wrong(y.read(), [&](int at) {
    float s = 0;
    for (int j = -1; j < 2; j++)
      for (int i = -1; i < 2; i++) {
        const int gx = std::min(std::max(at % W + i, 0), W - 1);
        const int gy = std::min(std::max(at / W + j, 0), H - 1);
        s += c[(j + 1) * 3 + i + 1] * in[gy * W + gx];
      }
    return s;
  });
  std::vector<int> rows = {0}, columns;
  std::vector<double> values, vector(20), want(20);
  for (int i = 0; i < 20; i++) vector[i] = i + 1;
  for (int r = 0; r < 20; r++) {
    for (int k = 0; k < r; k++) {
      columns.push_back(k * 3 % 20);
      values.push_back(r - k);
      want[r] += (r - k) * vector[k * 3 % 20];
    }
    rows.push_back(columns.size());
  }
  Device<int> dr(rows), dc(columns);
  Device<double> dv(values), dx(vector), dy(20);
  sparse<<<5, 128>>>(20, dr, dc, dv, dx, dy);
  bad += wrong(dy.read(), [&](int i) { return want[i]; });
  const auto q = generate<int>(512, [](int i) { return i * 3; });
  Device<int> from(q), to(512);
  hints<<<1, 32>>>((const int4*)(int*)from, (int4*)(int*)to);
  bad += wrong(to.read(), [&](int i) { return q[i]; });
  const auto small = [&](auto vector) {
    using T = decltype(vector);
    Device<int> copy(512);
    small_hints<<<1, 512 / sizeof(T)>>>((const T*)(int*)from, (T*)(int*)copy);
    bad += wrong(copy.read(), [&](int i) { return q[i]; });
  };
  small(char2()), small(uchar2()), small(char4()), small(uchar4());
  small(short2()), small(ushort2()), small(short4()), small(ushort4());
  return report("memory", bad);
}

namespace {
__host__ __device__ void divide(__int128 a, __int128 b, long long* out) {
  const __int128 results[] = {a / b, a % b, (__int128)((unsigned __int128)a / (unsigned __int128)b),
                              (__int128)((unsigned __int128)a % (unsigned __int128)b)};
  for (__int128 result : results) *out++ = (long long)(result >> 64), *out++ = (long long)result;
  *out = (long long)((double)a * 0x1p-64);
}
__global__ void divide_wide(const long long* in, long long* out) {
  const auto at = [in](int i) { return (__int128)in[i] << 64 | (unsigned long long)in[i + 1]; };
  divide(at(0), at(2), out);
}
__global__ void reserve(int* out, int count) {
  int* const own = (int*)__builtin_alloca(count * sizeof(int));
  for (int i = 0; i < count; i++) own[i] = i * threadIdx.x;
  for (int i = 0; i < count; i++) out[threadIdx.x] += own[count - 1 - i];
}
int wrong_wide_divisions() {
  const long long numbers[][4] = {{0x0123456789abcdef, -2, 0, 1000000007}, {-5, 77, 0, 3},
                                  {-9, 1, -1, -12345678901}, {1ll << 62, 9, 3, 4}, {0, 7, 1, 0}};
  int bad = 0;
  for (const auto& one : numbers) {
    Device<long long> in(std::vector<long long>(one, one + 4)), out(9);
    divide_wide<<<1, 1>>>(in, out);
    std::vector<long long> here(9);
    const auto at = [&](int i) { return (__int128)one[i] << 64 | (unsigned long long)one[i + 1]; };
    divide(at(0), at(2), here.data());
    bad += wrong(out.read(), [&](int i) { return here[i]; });
  }
  return bad;
}
}  // namespace

int check_calls() {
  Device<int> a(std::vector<int>{6, 0, 5, 1});
  indirect<<<1, 1>>>(a);
  int bad = a.read()[1] != 6 * 3 + 120 + 4;
  Device<int> out(8);
  heap<<<1, 8>>>(out, 100);
  bad += wrong(out.read(), [](int i) { return 3 + i; });
  hello<<<2, 2>>>(4, 2.5f);
  CHECK(cudaDeviceSynchronize());
  Device<double> d(4);
  fill<<<1, 4>>>((double*)d, 2.25);
  bad += wrong(d.read(), [](int) { return 2.25; });
  Device<float> o(24);
  Mixed first = {2, 0.5, {}}, second = {0, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  structures<<<1, 24>>>(first, second, o);
  bad += wrong(o.read(), [](int i) { return 0.5 + i % 12 + 1 + 3 + 7; });
  Device<int> l(std::vector<int>{1, -2, 3, 2000, 5});
  lambda<<<1, 1>>>(l, 5);
  const int want[] = {5, -2, 15, 2000, 5};
  bad += wrong(l.read(), [&](int i) { return want[i]; });
  int factor = 4;
  apply<<<1, 5>>>((int*)l, [=] __device__(int v) { return v * factor; });
  bad += wrong(l.read(), [&](int i) { return want[i] * 4; });
  Device<int> sums(32);
  reserve<<<1, 32>>>(sums, 21);
  bad += wrong(sums.read(), [](int i) { return 210 * i; });
  return report("calls", bad + wrong_wide_divisions());
}

int check_tensor_cores() {
  const int K = 32, N = 16;
  const auto a = generate<float>(16 * K, [](int i) { return i % 5 - 2; });
  const auto b = generate<float>(K * N, [](int i) { return i % 7 - 3; });
  std::vector<half> ah, bh;
  std::vector<__nv_bfloat16> ab, bb;
  for (float v : a) ah.push_back(half(v)), ab.push_back(__nv_bfloat16(v));
  for (float v : b) bh.push_back(half(v)), bb.push_back(__nv_bfloat16(v));
  Device<half> x(ah), y(bh);
  Device<__nv_bfloat16> u(ab), v(bb);
  Device<float> c(256), d(256);
  tensor<half, wmma::row_major><<<1, 32>>>(x, y, c, K, N);
  tensor<__nv_bfloat16, wmma::row_major><<<1, 32>>>(u, v, d, K, N);
  const auto want = [&](int at) {
    float s = 0;
    for (int k = 0; k < K; k++) s += a[at / 16 * K + k] * b[k * N + at % 16];
    return s;
  };
  const auto e = generate<double>(32, [](int i) { return i % 5 / 3.0; });
  const auto f = generate<double>(32, [](int i) { return 1e10 * i + 0.25; });
  Device<double> p(e), q(f), rows(128), columns(128);
  doubles<wmma::row_major><<<1, 32>>>(p, q, rows);
  doubles<wmma::col_major><<<1, 32>>>(p, q, columns);
  const auto product = [&](int at, bool by_rows) {
    const int i = at < 64 ? at / 8 : at % 8, j = at < 64 ? at % 8 : at / 8 % 8;
    double s = 0;
    for (int k = 0; k < 4; k++) s += e[by_rows ? i * 4 + k : k * 8 + i] * f[k * 8 + j];
    return at < 64 ? s + 0.5 : 2 * s + 0.5;
  };
  const int bad = wrong(rows.read(), [&](int at) { return product(at, true); }, 1e-14) +
                  wrong(columns.read(), [&](int at) { return product(at, false); }, 1e-14);
  return report("tensor cores", bad + wrong(c.read(), want) + wrong(d.read(), want));
}
