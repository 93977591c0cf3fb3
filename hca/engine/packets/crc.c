/* CRC-32, either by tables, eight bytes per step, or by carry-less multiplication, 64 or 256
 * bytes per step.
 *
 * Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction":
 * 16-byte lanes are multiplied by a power of x and XORed with the bytes at that distance; at the
 * end the lanes are folded into one, whose 16 bytes have the same remainder as everything before
 * them. */
#include "packets/crc.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SLICES = 8, LANE_BYTES = 16, FOLD_BYTES = 64, WIDE_BYTES = 256 };
static const uint32_t POLYNOMIAL = 0xEDB88320u;

static uint32_t tables[SLICES][256];
static uint32_t powers[64]; /* x^(8 * 2^i) modulo the polynomial */
static uint32_t (*update)(uint32_t, const uint8_t *, size_t);
static const char *way;

/* Product of two polynomials whose highest power is the lowest bit. */
static uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? (b >> 1) ^ POLYNOMIAL : b >> 1;
  }
  return product;
}

static void make_tables(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; bit++) value = value & 1 ? (value >> 1) ^ POLYNOMIAL : value >> 1;
    tables[0][i] = value;
  }
  for (unsigned slice = 1; slice < SLICES; slice++)
    for (uint32_t i = 0; i < 256; i++)
      tables[slice][i] = tables[0][tables[slice - 1][i] & 255] ^ (tables[slice - 1][i] >> 8);
  powers[0] = UINT32_C(1) << (31 - 8); /* x^8 */
  for (unsigned i = 1; i < sizeof powers / sizeof *powers; i++)
    powers[i] = multiply(powers[i - 1], powers[i - 1]);
}

uint32_t hca_crc_shift(uint32_t state, size_t bytes) {
  for (unsigned i = 0; bytes; i++, bytes >>= 1)
    if (bytes & 1) state = multiply(state, powers[i]);
  return state;
}

static uint32_t by_tables(uint32_t state, const uint8_t *data, size_t bytes) {
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint32_t low, high;
    memcpy(&low, data, 4);
    memcpy(&high, data + 4, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    low = __builtin_bswap32(low);
    high = __builtin_bswap32(high);
#endif
    low ^= state;
    state = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
            tables[4][low >> 24] ^ tables[3][high & 255] ^ tables[2][high >> 8 & 255] ^
            tables[1][high >> 16 & 255] ^ tables[0][high >> 24];
  }
  if (bytes >= 4) { /* packet sizes are multiples of four */
    uint32_t low;
    memcpy(&low, data, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    low = __builtin_bswap32(low);
#endif
    low ^= state;
    state = tables[3][low & 255] ^ tables[2][low >> 8 & 255] ^ tables[1][low >> 16 & 255] ^
            tables[0][low >> 24];
    data += 4;
    bytes -= 4;
  }
  for (; bytes; data++, bytes--) state = tables[0][(state ^ *data) & 255] ^ (state >> 8);
  return state;
}

#if defined(__x86_64__)
/* x^(n+32) and x^(n-32) modulo the polynomial, reflected, times x: to move by n bits. */
static const uint64_t BY_2048[2] = {0x11542778au, 0x1322d1430u};
static const uint64_t BY_512[2] = {0x154442bd4u, 0x1c6e41596u};
static const uint64_t BY_128[2] = {0x1751997d0u, 0x0ccaa009eu};

#define NARROW __attribute__((target("pclmul,sse4.1")))
#define WIDE __attribute__((target("pclmul,sse4.1,avx512f,avx512vl,vpclmulqdq")))

NARROW static inline __m128i pair(const uint64_t *powers_of_x) {
  return _mm_loadu_si128((const __m128i *)powers_of_x);
}

NARROW static inline __m128i fold(__m128i lane, __m128i by, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(lane, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(lane, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Fold the lanes and the remaining bytes; every variant ends with this step. */
NARROW static uint32_t finish(const __m128i *lanes, int count, const uint8_t *data, size_t bytes) {
  const __m128i by_128 = pair(BY_128);
  __m128i all = lanes[0];
  for (int i = 1; i < count; i++) all = fold(all, by_128, lanes[i]);
  for (; bytes >= LANE_BYTES; data += LANE_BYTES, bytes -= LANE_BYTES)
    all = fold(all, by_128, _mm_loadu_si128((const __m128i *)data));
  uint8_t last[LANE_BYTES];
  _mm_storeu_si128((__m128i *)last, all);
  return by_tables(by_tables(0, last, sizeof last), data, bytes);
}

NARROW static uint32_t by_multiplication(uint32_t state, const uint8_t *data, size_t bytes) {
  if (bytes < 2 * LANE_BYTES) return by_tables(state, data, bytes);
  __m128i lanes[4];
  if (bytes < 2 * FOLD_BYTES) {
    lanes[0] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)data), _mm_cvtsi32_si128((int)state));
    return finish(lanes, 1, data + LANE_BYTES, bytes - LANE_BYTES);
  }
  for (int i = 0; i < 4; i++) lanes[i] = _mm_loadu_si128((const __m128i *)(data + 16 * i));
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)state));
  const __m128i by_512 = pair(BY_512);
  for (data += FOLD_BYTES, bytes -= FOLD_BYTES; bytes >= FOLD_BYTES;
       data += FOLD_BYTES, bytes -= FOLD_BYTES)
    for (int i = 0; i < 4; i++)
      lanes[i] = fold(lanes[i], by_512, _mm_loadu_si128((const __m128i *)(data + 16 * i)));
  return finish(lanes, 4, data, bytes);
}

WIDE static inline __m512i fold_wide(__m512i lanes, __m512i by, __m512i next) {
  const __m512i low = _mm512_clmulepi64_epi128(lanes, by, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(lanes, by, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* XOR of all three */
}

/* The same with four lanes per register. */
WIDE static uint32_t by_wide_multiplication(uint32_t state, const uint8_t *data, size_t bytes) {
  if (bytes < 2 * WIDE_BYTES) return by_multiplication(state, data, bytes);
  __m512i lanes[4];
  for (int i = 0; i < 4; i++) lanes[i] = _mm512_loadu_si512(data + FOLD_BYTES * i);
  const __m512i first = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state));
  lanes[0] = _mm512_xor_si512(lanes[0], first);
  const __m512i by_2048 = _mm512_broadcast_i32x4(pair(BY_2048));
  for (data += WIDE_BYTES, bytes -= WIDE_BYTES; bytes >= WIDE_BYTES;
       data += WIDE_BYTES, bytes -= WIDE_BYTES)
    for (int i = 0; i < 4; i++)
      lanes[i] = fold_wide(lanes[i], by_2048, _mm512_loadu_si512(data + FOLD_BYTES * i));
  const __m512i by_512 = _mm512_broadcast_i32x4(pair(BY_512));
  __m512i all = lanes[0];
  for (int i = 1; i < 4; i++) all = fold_wide(all, by_512, lanes[i]);
  for (; bytes >= FOLD_BYTES; data += FOLD_BYTES, bytes -= FOLD_BYTES)
    all = fold_wide(all, by_512, _mm512_loadu_si512(data));
  __m128i narrow[4];
  _mm512_storeu_si512(narrow, all);
  return finish(narrow, 4, data, bytes);
}
#endif

/* Compare a variant with the tables for every length up to three steps of `step` bytes. */
__attribute__((unused)) static bool
agrees(uint32_t (*other)(uint32_t, const uint8_t *, size_t), unsigned step) {
  uint8_t data[3 * WIDE_BYTES + LANE_BYTES];
  for (unsigned i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 197u + (i >> 3));
  for (unsigned bytes = 0; bytes <= 3 * step; bytes++) {
    const uint8_t *from = data + bytes % LANE_BYTES;
    if (other(~bytes, from, bytes) != by_tables(~bytes, from, bytes)) return false;
  }
  return true;
}

void hca_crc_choose(void) {
  if (update) return;
  make_tables();
  way = "slicing-by-8";
  uint32_t (*chosen)(uint32_t, const uint8_t *, size_t) = by_tables;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1") &&
      agrees(by_multiplication, FOLD_BYTES)) {
    way = "pclmulqdq";
    chosen = by_multiplication;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("vpclmulqdq") && agrees(by_wide_multiplication, WIDE_BYTES)) {
      way = "vpclmulqdq";
      chosen = by_wide_multiplication;
    }
  }
#endif
  update = chosen;
}

uint32_t hca_crc_update(uint32_t state, const uint8_t *data, size_t bytes) {
  return update(state, data, bytes);
}

const char *hca_crc_way(void) { return way; }
