/* C++ kernels for clang, without a CUDA SDK; the host's own compiler compiles the same functions,
 * which it calls thread after thread (oracle.cpp). `remake.sh` writes the PTX into this folder. */
#ifdef __CUDA__
#include "../../../../examples/cuda_builtins.h"
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
extern "C" __device__ int vprintf(const char *, const char *);
extern "C" __device__ void *malloc(unsigned long);
extern "C" __device__ void free(void *);
__device__ void *operator new(unsigned long n) { return malloc(n); }
__device__ void operator delete(void *p) noexcept { free(p); }
__device__ void operator delete(void *p, unsigned long) noexcept { free(p); }
#endif
#define NOINLINE __attribute__((noinline))
#define KERNEL extern "C" __global__ void
typedef unsigned char u8;
typedef unsigned u32;
typedef unsigned long long u64;

__device__ inline int global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

/* Structures by value. */
struct Large {
  double a;
  int v[7];
  u8 c;
  short s;
  float f[3];
};

__device__ NOINLINE Large turned(Large b, int k) {
  Large r = b;
  for (int i = 0; i < 7; i++) r.v[i] = b.v[6 - i] + k;
  r.c += k;
  r.s -= k;
  r.a *= 2;
  r.f[k % 3] += 1;
  return r;
}

KERNEL structures(Large *out, Large in, int n) {
  int i = global_index();
  if (i < n) {
    Large once = turned(in, i);
    out[i] = turned(once, 3);
  }
}

/* A jump table. */
__device__ int chosen(int k, int x) {
  switch (k) {
    case 0: return x + 1;
    case 1: return x * 7;
    case 2: return x ^ 0x55;
    case 3: return x / 3;
    case 4: return -x;
    case 5: return x << 3;
    case 6: return x % 11;
    case 7: return ~x;
    case 8: return x * x;
    case 9: return x >> 2;
    case 23: return 5;
    case 24: return 99 - x;
    default: return 1000;
  }
}

KERNEL switches(int *a, int n) {
  int i = global_index();
  if (i >= n) return;
  int x = a[i];
  for (int k = 0; k < 4; k++) x = chosen((x + k) & 31, x & 0xfff);
  a[i] = x;
}

/* Recursion, in one function and in two. */
__device__ NOINLINE int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
__device__ NOINLINE int odd(int n);
__device__ NOINLINE int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ NOINLINE int odd(int n) { return n == 0 ? 0 : even(n - 1); }
KERNEL recursion(int *a) {
  int i = global_index();
  a[i] = fibonacci(i % 11) * 2 + even(i % 50);
}

struct Tree {
  int value;
  Tree *left, *right;
};
__device__ NOINLINE int sum(const Tree *t) {
  return t ? t->value + sum(t->left) + sum(t->right) : 0;
}
KERNEL tree(int *out, Tree *t, int n) {
  if (global_index() != 0) return;
  for (int i = 0; i < n; i++) {
    t[i].value = i * 3;
    t[i].left = 2 * i + 1 < n ? t + 2 * i + 1 : nullptr;
    t[i].right = 2 * i + 2 < n ? t + 2 * i + 2 : nullptr;
  }
  out[0] = sum(t);
}

/* Thread-local arrays. */
KERNEL local_arrays(int *a, const int *index, int n) {
  int t[32], i = global_index(), hash = 0;
  for (int k = 0; k < 32; k++) t[k] = k * i;
  for (int k = 0; k < 32; k++) {
    int j = index[(i + k) & 31] & 31, before = t[j];
    t[j] = t[k];
    t[k] = before;
  }
  for (int k = 0; k < 32; k++) hash = (int)((u32)hash * 31 + t[k]);
  if (i < n) a[i] = hash;
}

KERNEL taken_from_the_stack(int *out, int n) {
  int i = global_index(), total = 0;
  int *p = (int *)__builtin_alloca(4 * (n + i % 4));
  for (int k = 0; k < n + i % 4; k++) p[k] = k * i;
  for (int k = 0; k < n + i % 4; k++) total += p[k];
  out[i] = total;
}

/* Virtual functions, one of them pure, and tables of functions. */
struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual int factor() { return 1; }
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float s;
  __device__ Square(float side) : s(side) {}
  __device__ float area() const override { return s * s; }
};
struct Rectangle : Square {
  float h;
  __device__ Rectangle(float a, float b) : Square(a), h(b) {}
  __device__ float area() const override { return s * h; }
  __device__ int factor() override { return 2; }
};
__device__ NOINLINE float used(Shape *s) { return s->area() * s->factor(); }

KERNEL virtual_functions(float *a) {
  int i = global_index();
  Square square(i);
  Rectangle rectangle(i, 2);
  a[i] = used(&square) + used(i & 1 ? (Shape *)&square : &rectangle);
}

KERNEL new_and_delete(float *a) {
  int i = global_index();
  Shape *s = i & 1 ? (Shape *)new Square(i) : new Rectangle(i, 3);
  a[i] = used(s);
  delete s;
}

typedef int (*Operation)(int, int);
__device__ int added(int a, int b) { return a + b; }
__device__ int multiplied(int a, int b) { return a * b; }
__device__ int subtracted(int a, int b) { return a - b; }
__device__ Operation operations[3] = {added, multiplied, subtracted};
KERNEL function_pointers(int *a, int n) {
  int i = global_index();
  a[i] = operations[i % 3](a[i], n);
  Operation last = i & 1 ? added : subtracted;
  a[i] = last(a[i], 5);
}

template <typename T, int N> __device__ T polynomial(const T (&c)[N], T x) {
  T r = 0;
  for (int i = 0; i < N; i++) r = r * x + c[i];
  return r;
}
KERNEL templates_and_lambdas(float *a, int n) {
  float c[5] = {1, 2, 3, 4, (float)n};
  int i = global_index();
  auto of = [&](float x) { return polynomial(c, x) + i; };
  a[i] = of(a[i]);
}

/* Variables and arithmetic. */
__constant__ float coefficients[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ double table[4][3] = {{1, 2, 3}, {4, 5, 6}};
__constant__ const char *names[2] = {"ab", "cdef"};
__device__ int counter = 3;
__device__ int *pointer = &counter;

KERNEL doubles(double *a) {
  int i = global_index();
  double x = a[i], y = 0;
  for (int k = 0; k < 8; k++) y = y * x + coefficients[k];
  y += __builtin_sqrt(__builtin_fabs(x)) / (1 + x * x);
  y += __builtin_fma(x, x, table[i & 3][i % 3]) + __builtin_floor(x) - __builtin_ceil(y);
  y += __builtin_trunc(x * 3) + __builtin_copysign(x, -1.0) + __builtin_fmin(x, y);
  a[i] = y + __builtin_rint(x) + names[1][i & 3] + *pointer;
}

KERNEL wide_integers(u64 *a) {
  int i = global_index();
  unsigned __int128 x = (unsigned __int128)a[2 * i] << 64 | a[2 * i + 1];
  x = x * x + 12345;
  x ^= x >> 77;
  a[2 * i] = x >> 64;
  a[2 * i + 1] = x;
}

KERNEL divisions(u64 *a, int *b) {
  int i = global_index(), d = b[i] | 1;
  u64 m = a[i + 64] | 1;
  a[i] = a[i] / m + (long long)a[i] % (long long)m;
  b[i] = b[i] / 7 + b[i] % d + (int)((u32)b[i] / 10u) + (short)b[i] / 3;
}

KERNEL bits(u32 *a, u64 *b) {
  int i = global_index();
  u32 x = a[i];
  u64 y = b[i];
  a[i] = __builtin_popcount(x) + __builtin_clz(x | 1) * 3 + __builtin_ctz(x | 1024) * 5 +
         __builtin_bswap32(x) + (x << (i & 31) | x >> (-i & 31));
  b[i] = __builtin_popcountll(y) + __builtin_clzll(y | 1) * 3 + __builtin_bswap64(y) +
         (y >> (i & 63) | y << (-i & 63)) + __builtin_ffsll(y);
}

KERNEL small_integers(u8 *a, short *b, bool *c) {
  int i = global_index();
  signed char s = a[i];
  s = s * 3 - 7;
  a[i] = s >> 1;
  short h = b[i];
  h = h / 3 + (short)(u8)s;
  b[i] = h;
  c[i] = (h & 1) ^ (s < 0);
}

KERNEL jumps(int *a, int n) {
  int i = global_index(), x = a[i];
again:
  if (x & 1) goto doubled;
three:
  x += 3;
  if (x > n) goto out;
  if (x % 5 == 0) goto again;
doubled:
  x = x * 2 + 1;
  if (x < n) goto three;
out:
  a[i] = x;
}

KERNEL conversions(float *f, double *d, int *i, u64 *u) {
  int k = global_index();
  double x = d[k];
  f[k] = (float)x + (float)i[k] + (float)u[k];
  i[k] = (int)x + (int)((float)i[k] * 0.37f);
  d[k] = (double)u[k] + (double)(long long)u[k];
  u[k] = (u64)__builtin_fabs(x) + (u64)(long long)x;
}

#ifdef __CUDA__ /* not available on the host */

KERNEL printing(int *a) {
  int i = global_index();
  struct {
    int x;
    double d;
    const char *s;
    long l;
  } arguments = {i, i * .5, "text", -3};
  if (i == 3) a[0] = vprintf("%d %f %s %ld\n", (const char *)&arguments);
}

KERNEL assembly(u32 *a) {
  int i = global_index();
  u32 x = a[i], r, lane;
  u64 w;
  asm("{ .reg .pred p; setp.gt.u32 p, %1, 5; selp.b32 %0, 1, %1, p; }" : "=r"(r) : "r"(x));
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(w) : "r"(x), "r"(lane));
  asm("{ add.cc.u32 %0, %0, %1; addc.u32 %0, %0, 0; }" : "+r"(r) : "r"(x));
  a[i] = r + (u32)(w >> 1);
}

KERNEL long_atomics(u64 *a, double *d, long long *m) {
  int i = global_index();
  __nvvm_atom_add_gen_ll((long long *)a, i);
  __nvvm_atom_xor_gen_ll((long long *)a + 1, (long long)i << 33);
  __nvvm_atom_max_gen_ll(m, i * -7);
  __nvvm_atom_min_gen_ull(a + 2, i + 5);
  __nvvm_atom_cas_gen_ll((long long *)a + 3, 0, i + 1);
  __nvvm_atom_add_gen_d(d, 0.5);
}

KERNEL standard_atomics(int *a, u64 *b) {
  int i = global_index(), none = 0;
  __atomic_fetch_add(a, i, __ATOMIC_RELAXED);
  __atomic_fetch_or(b, 1ull << (i & 63), __ATOMIC_SEQ_CST);
  __atomic_fetch_sub(a + 1, 3, __ATOMIC_ACQ_REL);
  __atomic_compare_exchange_n(a + 2, &none, 8, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  __atomic_store_n(a + 3, 17, __ATOMIC_RELEASE);
  __atomic_fetch_max(a + 4, i, __ATOMIC_RELAXED);
  a[5] = __atomic_load_n(a + 3, __ATOMIC_ACQUIRE);
}

typedef _Float16 half2 __attribute__((ext_vector_type(2)));
KERNEL halves(half2 *x, const half2 *y) {
  int i = global_index();
  half2 a = x[i], b = y[i];
  a = a * b + a;
  a.x = a.y > b.x ? a.x : b.y;
  x[i] = a - b;
}

typedef float float4v __attribute__((ext_vector_type(4)));
typedef double double2v __attribute__((ext_vector_type(2)));
typedef u8 bytes4v __attribute__((ext_vector_type(4)));
KERNEL vectors(float4v *a, double2v *d, bytes4v *b) {
  int i = global_index();
  float4v x = a[i];
  a[i] = x.wzyx * 2.0f + x;
  d[i] = d[i].yx + 1.0;
  b[i] = b[i] + (bytes4v)(3);
}

KERNEL warps(u32 *out) {
  u32 i = global_index(), all = 0xffffffff, s = i;
  for (int k = 16; k; k >>= 1) s += __nvvm_shfl_sync_down_i32(all, s, k, 31);
  out[5 * i] = __nvvm_shfl_sync_idx_i32(all, s, 0, 31);
  out[5 * i + 1] = __nvvm_vote_ballot_sync(all, i % 3 == 0);
  out[5 * i + 2] = __nvvm_shfl_sync_bfly_i32(all, i, 5, 31);
  out[5 * i + 3] = __nvvm_match_any_sync_i32(all, i & 3);
  out[5 * i + 4] = __nvvm_vote_any_sync(all, i == 40);
  __nvvm_bar_warp_sync(all);
}

extern __shared__ float dynamic[];
KERNEL dynamic_shared_memory(float *a) {
  int t = threadIdx.x;
  dynamic[t] = a[global_index()];
  __syncthreads();
  for (int s = blockDim.x / 2; s; s >>= 1) {
    if (t < s) dynamic[t] += dynamic[t + s];
    __syncthreads();
  }
  if (t == 0) a[blockIdx.x * blockDim.x] = dynamic[0];
}

KERNEL __launch_bounds__(128, 2) launch_bounds(int *a) {
  __shared__ int tile[128];
  int i = threadIdx.x;
  tile[i] = a[global_index()];
  __syncthreads();
  a[global_index()] = tile[127 - i];
}
#endif
