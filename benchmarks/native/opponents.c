/* The speed of native code on these cores: a vector addition, and the peak of f32 FMA. */
#include <omp.h>

void vecadd(const float *restrict a, const float *restrict b, float *restrict c, long n,
            int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (long i = 0; i < n; i++) c[i] = a[i] + b[i];
}

/* Independent chains of multiply-add in registers: enough of them to hide the latency (4 cycles)
 * of two pipes, few enough to stay in registers. Returns seconds; *flops is the number of
 * operations. */
#define CHAINS 12
#define FMA_PEAK(NAME, BYTES)                                                                  \
  typedef float NAME##_vector __attribute__((vector_size(BYTES)));                             \
  double NAME(long rounds, int threads, double *flops) {                                       \
    float sink = 0;                                                                            \
    double begin = 0, end = 0;                                                                 \
    _Pragma("omp parallel num_threads(threads) reduction(+ : sink)") {                         \
      NAME##_vector acc[CHAINS], m, s;                                                         \
      for (int l = 0; l < (int)(BYTES / sizeof(float)); l++) m[l] = 0.999f, s[l] = 1e-3f * l;  \
      for (int i = 0; i < CHAINS; i++) acc[i] = s * (float)i;                                  \
      _Pragma("omp barrier") _Pragma("omp master") begin = omp_get_wtime();                    \
      for (long r = 0; r < rounds; r++)                                                        \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) acc[i] = acc[i] * m + s;     \
      _Pragma("omp barrier") _Pragma("omp master") end = omp_get_wtime();                      \
      for (int i = 0; i < CHAINS; i++) sink += acc[i][0];                                      \
    }                                                                                          \
    *flops = 2.0 * CHAINS * (BYTES / sizeof(float)) * rounds * threads + (sink == 42);         \
    return end - begin;                                                                        \
  }

FMA_PEAK(fma_peak_32, 32)
FMA_PEAK(fma_peak_64, 64)

/* The same for the dot product of bf16 pairs; 0 flops where the cores have none. */
#ifdef __AVX512BF16__
#include <immintrin.h>

double bf16_peak(long rounds, int threads, double *flops) {
  double begin = 0, end = 0;
#pragma omp parallel num_threads(threads)
  {
    __m512 acc[CHAINS];
    __m512bh a = (__m512bh)_mm512_set1_epi32(0x3c003c00), b = a;
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_ps(i);
#pragma omp barrier
#pragma omp master
    begin = omp_get_wtime();
    for (long r = 0; r < rounds; r++)
#pragma GCC unroll 12
      for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
#pragma omp barrier
#pragma omp master
    end = omp_get_wtime();
    for (int i = 0; i < CHAINS; i++) __asm__ volatile("" : : "v"(acc[i]));
  }
  *flops = 2.0 * 32 * CHAINS * rounds * threads;
  return end - begin;
}
#else
double bf16_peak(long rounds, int threads, double *flops) {
  *flops = 0;
  return 0;
}
#endif
