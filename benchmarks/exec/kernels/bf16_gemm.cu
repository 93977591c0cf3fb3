/* C = A * B^T of bf16, sums in f32, as in libraries for sm_80: mma.sync m16n8k16, ldmatrix and
 * cp.async. A block of 128 threads computes 128 x 128 of C, a warp 64 x 64. Steps of 32 in depth copy
 * both tiles to shared memory, two steps in flight. Rows of 64 bytes are swizzled so that the eight
 * rows of a matrix are in different banks. m and n are multiples of 128, k of 32. */
#include "cuda.h"

typedef unsigned u32;
typedef unsigned short u16;

#define TILE 128
#define DEPTH 32

static __device__ u32 place(u32 row, u32 chunk) {  /* of a 16-byte chunk, in a tile with 64-byte rows */
  return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4);
}

static __device__ u32 shared_address(const void *p) {
  return (u32)(unsigned long long)(__attribute__((address_space(3))) const void *)p;
}

static __device__ void copy16(u32 to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

static __device__ void load4(u32 *r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

static __device__ void multiply(float *d, const u32 *a, const u32 *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3},"
               " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __attribute__((launch_bounds(128)))
bf16_gemm(const u16 *a, const u16 *b, float *c, u32 n, u32 k) {
  static __shared__ __attribute__((aligned(128))) char tiles[2][2][TILE * 64];
  u32 thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  u32 top = blockIdx.y * TILE, left = blockIdx.x * TILE;
  u32 row0 = (warp >> 1) * 64, column0 = (warp & 1) * 64;
  float sums[4][8][4] = {};

  u32 from_row = thread >> 2, from_chunk = thread & 3;  /* 32 rows at a time, 4 chunks each */
  const char *from_a = (const char *)(a + (unsigned long long)(top + from_row) * k) + from_chunk * 16;
  const char *from_b = (const char *)(b + (unsigned long long)(left + from_row) * k) + from_chunk * 16;
  unsigned long long step = (unsigned long long)32 * k * 2;
  u32 base = shared_address(tiles);
  u32 to = base + place(from_row, from_chunk);

  u32 steps = k / DEPTH;
#define FETCH(stage)                                                         \
  do {                                                                       \
    u32 at = to + (stage) * 2 * TILE * 64;                                   \
    _Pragma("unroll") for (int i = 0; i < 4; i++) {                          \
      copy16(at + i * 32 * 64, from_a + i * step);                           \
      copy16(at + TILE * 64 + i * 32 * 64, from_b + i * step);               \
    }                                                                        \
    from_a += DEPTH * 2;                                                     \
    from_b += DEPTH * 2;                                                     \
    asm volatile("cp.async.commit_group;" ::: "memory");                     \
  } while (0)

  FETCH(0);
  u32 row_a = row0 + (lane & 15), chunk_a = lane >> 4;
  u32 row_b = column0 + (lane & 7) + ((lane >> 4) << 3), chunk_b = (lane >> 3) & 1;
  for (u32 s = 0; s < steps; s++) {
    if (s + 1 < steps) {
      FETCH((s + 1) & 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    u32 tile_a = base + (s & 1) * 2 * TILE * 64, tile_b = tile_a + TILE * 64;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
      u32 x[4][4], y[4][4];
#pragma unroll
      for (u32 i = 0; i < 4; i++) load4(x[i], tile_a + place(row_a + i * 16, half * 2 + chunk_a));
#pragma unroll
      for (u32 j = 0; j < 4; j++) load4(y[j], tile_b + place(row_b + j * 16, half * 2 + chunk_b));
#pragma unroll
      for (u32 i = 0; i < 4; i++)
#pragma unroll
        for (u32 j = 0; j < 8; j++) multiply(sums[i][j], x[i], y[j >> 1] + (j & 1) * 2);
    }
    __syncthreads();
  }
#pragma unroll
  for (u32 i = 0; i < 4; i++)
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
      u32 row = top + row0 + i * 16 + (lane >> 2), column = left + column0 + j * 8 + (lane & 3) * 2;
      float *out = c + (unsigned long long)row * n + column;
      out[0] = sums[i][j][0];
      out[1] = sums[i][j][1];
      out += 8ull * n;
      out[0] = sums[i][j][2];
      out[1] = sums[i][j][3];
    }
}
