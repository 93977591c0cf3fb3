/* CRC-32 by tables, eight bytes a step, or by carry-less multiplication, 64 bytes a step.
 *
 * Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction":
 * four lanes of 16 bytes are multiplied by x^512 and meet the next 64 bytes; at the end the lanes
 * are folded into one, which is 16 bytes with the same remainder as everything before them. */
#include "wire_crc.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SLICES = 8, FOLD_BYTES = 64 };
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
  for (; bytes; data++, bytes--) state = tables[0][(state ^ *data) & 255] ^ (state >> 8);
  return state;
}

#if defined(__x86_64__)
/* x^(512+32), x^(512-32), x^(128+32), x^(128-32) modulo the polynomial, reflected, times x. */
static const uint64_t BY_512[2] = {0x154442bd4u, 0x1c6e41596u};
static const uint64_t BY_128[2] = {0x1751997d0u, 0x0ccaa009eu};

__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i lane, __m128i by,
                                                                    __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(lane, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(lane, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t by_multiplication(uint32_t state,
                                                                           const uint8_t *data,
                                                                           size_t bytes) {
  if (bytes < 2 * FOLD_BYTES) return by_tables(state, data, bytes);
  __m128i lanes[4];
  for (int i = 0; i < 4; i++) lanes[i] = _mm_loadu_si128((const __m128i *)(data + 16 * i));
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)state));
  const __m128i by_512 = _mm_loadu_si128((const __m128i *)BY_512);
  for (data += FOLD_BYTES, bytes -= FOLD_BYTES; bytes >= FOLD_BYTES;
       data += FOLD_BYTES, bytes -= FOLD_BYTES)
    for (int i = 0; i < 4; i++)
      lanes[i] = fold(lanes[i], by_512, _mm_loadu_si128((const __m128i *)(data + 16 * i)));
  const __m128i by_128 = _mm_loadu_si128((const __m128i *)BY_128);
  __m128i all = lanes[0];
  for (int i = 1; i < 4; i++) all = fold(all, by_128, lanes[i]);
  uint8_t last[16];
  _mm_storeu_si128((__m128i *)last, all);
  return by_tables(by_tables(0, last, sizeof last), data, bytes);
}
#endif

/* Every length up to three steps, from every alignment, against the tables. */
__attribute__((unused)) static bool
agrees(uint32_t (*other)(uint32_t, const uint8_t *, size_t)) {
  uint8_t data[3 * FOLD_BYTES + 16];
  for (unsigned i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 197u + (i >> 3));
  for (unsigned first = 0; first < 16; first++)
    for (unsigned bytes = 0; bytes <= 3 * FOLD_BYTES; bytes++)
      if (other(~bytes, data + first, bytes) != by_tables(~bytes, data + first, bytes)) return false;
  return true;
}

void hca_crc_choose(void) {
  if (update) return;
  make_tables();
  way = "slicing-by-8";
  uint32_t (*chosen)(uint32_t, const uint8_t *, size_t) = by_tables;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1") &&
      agrees(by_multiplication)) {
    way = "pclmulqdq";
    chosen = by_multiplication;
  }
#endif
  update = chosen;
}

uint32_t hca_crc_update(uint32_t state, const uint8_t *data, size_t bytes) {
  return update(state, data, bytes);
}

const char *hca_crc_way(void) { return way; }
