/* Arithmetic of tcgen05.mma on four rows of D, as docs/isa.md defines it for TMMA. */
#include <math.h>
#include <string.h>

#include "blocks/tensor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static float number(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return isnan(value) ? TENSOR_NAN : bits;
}

static uint32_t flush(uint32_t bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }

/* Return a * b + c, where numbers below the normal ones are replaced by zeros. */
static float add_flushed(float a, float b, float c) {
  const float scale = 0x1p64f, sum = fmaf(a, b, c), large = fmaf(a * scale, b, c * scale);
  return fabsf(large) < 0x1p-62f ? copysignf(0.0f, sum) : sum;
}

static uint32_t add_pair(uint32_t total, uint32_t a, uint32_t b) {
  float sum = number(flush(total));
  sum = add_flushed(number(flush(a & 0xffff0000)), number(flush(b & 0xffff0000)), sum);
  sum = add_flushed(number(flush(a << 16)), number(flush(b << 16)), sum);
  return bits_of(sum);
}

static void multiply_plainly(tensor_how how, const tensor_quad *s) {
  for (int row = 0; row < 4; row++)
    for (uint32_t n = 0; n < s->columns; n++) {
      uint32_t total = s->zero ? 0 : s->rows[row][n];
      for (uint32_t k = 0; k < s->depth; k++) {
        const uint32_t a = s->left[row][k], b = s->right[k * TENSOR_PITCH + n];
        if (how == TENSOR_PAIRS)
          total = add_pair(total, a, b);
        else if (how == TENSOR_FLOATS)
          total = bits_of(fmaf(number(a), number(b), number(total)));
        else
          total += a * b;
      }
      s->rows[row][n] = total;
    }
}

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl")))
#define PAIRS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define MEDIUM __attribute__((target("avx2,fma,f16c")))

/* Without this, the totals would be in memory. */
#define UNROLLED _Pragma("GCC unroll 4")

/* Multiply two vectors of columns of four rows at a time, or one at the end. */
#define MULTIPLY(name, attribute, vector, lanes, none, load, store, splat, add)                   \
  attribute static void name(const tensor_quad *s) {                                              \
    uint32_t n = 0;                                                                               \
    for (; n + 2 * lanes <= s->columns; n += 2 * lanes) {                                         \
      vector t[4][2];                                                                             \
      UNROLLED for (int row = 0; row < 4; row++)                                                  \
        UNROLLED for (int i = 0; i < 2; i++)                                                      \
          t[row][i] = s->zero ? none : load(s->rows[row] + n + i * lanes);                        \
      for (uint32_t k = 0; k < s->depth; k++) {                                                   \
        const uint32_t *b = s->right + k * TENSOR_PITCH + n;                                      \
        const vector low = load(b), high = load(b + lanes);                                       \
        UNROLLED for (int row = 0; row < 4; row++) {                                              \
          const vector a = splat(s->left[row][k]);                                                \
          t[row][0] = add(t[row][0], a, low);                                                     \
          t[row][1] = add(t[row][1], a, high);                                                    \
        }                                                                                         \
      }                                                                                           \
      UNROLLED for (int row = 0; row < 4; row++)                                                  \
        UNROLLED for (int i = 0; i < 2; i++) store(s->rows[row] + n + i * lanes, t[row][i]);      \
    }                                                                                             \
    for (; n < s->columns; n += lanes)                                                            \
      UNROLLED for (int row = 0; row < 4; row++) {                                                \
        vector t = s->zero ? none : load(s->rows[row] + n);                                       \
        for (uint32_t k = 0; k < s->depth; k++)                                                   \
          t = add(t, splat(s->left[row][k]), load(s->right + k * TENSOR_PITCH + n));              \
        store(s->rows[row] + n, t);                                                               \
      }                                                                                           \
  }

#define ZERO_512 _mm512_setzero_ps()
#define LOAD_512(p) _mm512_loadu_ps(p)
#define SPLAT_512(w) _mm512_castsi512_ps(_mm512_set1_epi32((int)(w)))
#define ADD_512(t, a, b) _mm512_fmadd_ps(a, b, t)
#define ADD_PAIRS(t, a, b)                                                                        \
  _mm512_dpbf16_ps(t, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b))

WIDE static inline void store_512(uint32_t *p, __m512 t) {
  const __mmask16 nans = _mm512_cmp_ps_mask(t, t, _CMP_UNORD_Q);
  _mm512_storeu_si512(p, _mm512_mask_set1_epi32(_mm512_castps_si512(t), nans, TENSOR_NAN));
}

#define ZERO_INTEGERS _mm512_setzero_si512()
#define LOAD_INTEGERS(p) _mm512_loadu_si512(p)
#define STORE_INTEGERS(p, t) _mm512_storeu_si512(p, t)
#define SPLAT_INTEGERS(w) _mm512_set1_epi32((int)(w))
#define ADD_INTEGERS(t, a, b) _mm512_add_epi32(t, _mm512_mullo_epi32(a, b))

#define ZERO_256 _mm256_setzero_ps()
#define LOAD_256(p) _mm256_loadu_ps((const float *)(const void *)(p))
#define SPLAT_256(w) _mm256_castsi256_ps(_mm256_set1_epi32((int)(w)))
#define ADD_256(t, a, b) _mm256_fmadd_ps(a, b, t)

MEDIUM static inline void store_256(uint32_t *p, __m256 t) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(TENSOR_NAN));
  _mm256_storeu_ps((float *)p, _mm256_blendv_ps(t, nan, _mm256_cmp_ps(t, t, _CMP_UNORD_Q)));
}

MULTIPLY(wide_floats, WIDE, __m512, 16, ZERO_512, LOAD_512, store_512, SPLAT_512, ADD_512)
MULTIPLY(wide_pairs, PAIRS, __m512, 16, ZERO_512, LOAD_512, store_512, SPLAT_512, ADD_PAIRS)
MULTIPLY(wide_integers, WIDE, __m512i, 16, ZERO_INTEGERS, LOAD_INTEGERS, STORE_INTEGERS,
         SPLAT_INTEGERS, ADD_INTEGERS)
MULTIPLY(medium_floats, MEDIUM, __m256, 8, ZERO_256, LOAD_256, store_256, SPLAT_256, ADD_256)

static bool has_wide(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

static bool has_medium(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

void tw_tensor_quad(tensor_how how, const tensor_quad *s) {
  if (how == TENSOR_FLOATS && has_wide())
    wide_floats(s);
  else if (how == TENSOR_PAIRS && has_wide() && __builtin_cpu_supports("avx512bf16"))
    wide_pairs(s);
  else if (how == TENSOR_INTEGERS && has_wide())
    wide_integers(s);
  else if (how == TENSOR_FLOATS && has_medium())
    medium_floats(s);
  else
    multiply_plainly(how, s);
}

MEDIUM static void widen_by_vectors(float *to, const uint16_t *halves) {
  for (int i = 0; i < 16; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(halves + i))));
}
#else
static bool has_medium(void) { return false; }
static void widen_by_vectors(float *to, const uint16_t *halves) { (void)to, (void)halves; }
void tw_tensor_quad(tensor_how how, const tensor_quad *s) { multiply_plainly(how, s); }
#endif

static float widen(uint16_t half) {
  const uint32_t magnitude = half & 0x7fff, sign = (uint32_t)(half & 0x8000) << 16;
  if (magnitude >= 0x7c00) return number(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  return number(sign | bits_of(number(magnitude << 13) * 0x1p112f));
}

void tw_tensor_widen(float *to, const uint16_t *halves) {
  if (has_medium())
    widen_by_vectors(to, halves);
  else
    for (int i = 0; i < 16; i++) to[i] = widen(halves[i]);
}
