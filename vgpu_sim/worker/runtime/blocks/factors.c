/* Factors of tcgen05.mma: rows in shared memory by their descriptors, and their elements as words
 * that products.c multiplies. */
#include "blocks/factors.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static float values[FORMATS][256];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

/* Return the number with a sign bit, `exponent` and `fraction` bits. */
static float decode(uint32_t code, int exponent, int fraction, bool infinite) {
  const int bias = (1 << (exponent - 1)) - 1, most = (1 << exponent) - 1;
  const int e = code >> fraction & most, f = code & ((1 << fraction) - 1);
  const float sign = code >> (exponent + fraction) & 1 ? -1.0f : 1.0f;
  if (infinite && e == most) return f ? NAN : sign * INFINITY;
  if (e == 0) return sign * ldexpf((float)f, 1 - bias - fraction);
  return sign * ldexpf((float)(f + (1 << fraction)), e - bias - fraction);
}

static void fill_values(void) {
  for (uint32_t code = 0; code < 256; code++) {
    values[E4M3][code] = (code & 0x7f) == 0x7f ? NAN : decode(code, 4, 3, false);
    values[E5M2][code] = decode(code, 5, 2, true);
    values[E2M3][code] = decode(code & 0x3f, 2, 3, false);
    values[E3M2][code] = decode(code & 0x3f, 3, 2, false);
    values[E2M1][code] = decode(code & 0xf, 2, 1, false);
    values[UE8M0][code] = code == 255 ? NAN : ldexpf(1.0f, (int)code - 127);
  }
}

static bool is_narrow(uint32_t kind) { return kind == F8F6F4 || kind == MXF8F6F4; }

bool tw_tensor_is_format(uint32_t kind, uint32_t format) {
  return !is_narrow(kind) || (format <= E2M1 && format != 2);
}

tensor_matrix tw_tensor_decode(const uint8_t *base, uint32_t bytes, uint32_t low, uint32_t high,
                               bool across) {
  const uint32_t mode = high >> 29, leading = (low >> 16 & 0x3fff) << 4;
  const uint32_t stride = (high & 0x3fff) << 4;
  const uint32_t shift = mode == 6 ? 1 : mode == 4 ? 2 : mode == 0 ? 0 : 3;
  tensor_matrix m = {.base = base, .bytes = bytes, .start = (low & 0x3fff) << 4, .wide = shift};
  m.line = 16u << shift;
  m.mask = m.line - 16;
  m.narrow_atom = mode == 1;
  m.pattern = (high >> 17 & 7) << 7;
  m.beside = across && shift != 0 ? leading : stride;
  m.along = across ? (shift == 0 ? leading : stride) : shift == 0 ? leading : 16;
  m.near = shift == 0 ? m.beside : 16;
  return m;
}

static const uint8_t *find_row(const tensor_matrix *m, uint32_t place) {
  const uint32_t distance = place - m->pattern;
  if (m->narrow_atom)
    place ^= distance >> 2 & 0x60;
  else
    place ^= distance >> 3 & m->mask;
  return m->bytes < 16 || place > m->bytes - 16 ? NULL : m->base + place;
}

bool tw_tensor_gather(uint8_t *to, const tensor_matrix *m, uint32_t count, bool across,
                      uint32_t size, uint32_t row_bytes) {
  if (!across) {
    for (uint32_t row = 0; row < count; row++)
      for (uint32_t part = 0; part < row_bytes / 16; part++) {
        const uint32_t at = m->start + row % 8 * m->line + row / 8 * m->beside + part * m->along;
        const uint8_t *from = find_row(m, at);
        if (from == NULL) return false;
        memcpy(to + row * row_bytes + 16 * part, from, 16);
      }
    return true;
  }
  const uint32_t each = 16 / size, depth = row_bytes / size;
  const uint32_t inside = (1u << m->wide) - 1;
  for (uint32_t k = 0; k < depth; k++)
    for (uint32_t first = 0; first < count; first += each) {
      const uint32_t chunk = first / each;
      const uint32_t at = m->start + k % 8 * m->line + k / 8 * m->along +
                          (chunk & inside) * m->near + (chunk >> m->wide) * m->beside;
      const uint8_t *from = find_row(m, at);
      if (from == NULL) return false;
      for (uint32_t i = 0; i < each && first + i < count; i++)
        memcpy(to + (first + i) * row_bytes + k * size, from + i * size, size);
    }
  return true;
}

/* Return element `k` of a row of 8-bit containers. In shared memory 16 elements of 6 or 4 bits are
 * packed at the beginning of 16 bytes. In tensor memory each has a byte: of 4 bits, the middle. */
static uint32_t container(const uint8_t *row, uint32_t k, uint32_t format, bool in_tensor) {
  if (in_tensor) return format == E2M1 ? row[k] >> 2 & 15 : row[k] & 63;
  const uint8_t *part = row + (k & 16);
  const uint32_t width = format == E2M1 ? 4 : 6, bit = (k & 15) * width;
  const uint32_t word = part[bit / 8] | (uint32_t)part[bit / 8 + 1] << 8;
  return word >> bit % 8 & ((1u << width) - 1);
}

/* Widen a row to floats; return how many. */
static uint32_t widen_row(float *to, const uint8_t *from, const tensor_factor *f) {
  uint32_t depth;
  if (f->kind == F16) {
    uint16_t halves[16];
    memcpy(halves, from, sizeof halves);
    tw_tensor_widen(to, halves);
    depth = 16;
  } else if (f->kind == TF32) {
    uint32_t words[8];
    memcpy(words, from, sizeof words);
    for (int k = 0; k < 8; k++) words[k] &= 0xffffe000;
    memcpy(to, words, sizeof words);
    depth = 8;
  } else if (is_narrow(f->kind)) {
    if (f->format <= E5M2)
      for (uint32_t k = 0; k < 32; k++) to[k] = values[f->format][from[k]];
    else
      for (uint32_t k = 0; k < 32; k++)
        to[k] = values[f->format][container(from, k, f->format, f->in_tensor)];
    depth = 32;
  } else {
    for (uint32_t k = 0; k < 64; k++) to[k] = values[E2M1][from[k / 2] >> 4 * (k & 1) & 15];
    depth = 64;
  }
  if (f->negated)
    for (uint32_t k = 0; k < depth; k++) to[k] = -to[k];
  return depth;
}

uint32_t tw_tensor_prepare(uint32_t *to, const uint8_t *row, const tensor_factor *f) {
  if (f->how == TENSOR_PAIRS) {
    memcpy(to, row, TENSOR_FACTOR_BYTES);
    for (int k = 0; f->negated && k < 8; k++) to[k] ^= 0x80008000;
    return 8;
  }
  if (f->how == TENSOR_INTEGERS) {
    for (uint32_t k = 0; k < 32; k++) to[k] = f->format ? (uint32_t)(int8_t)row[k] : row[k];
    return 32;
  }
  float wide[TENSOR_DEPTH / 2];
  pthread_once(&filled, fill_values);
  const uint32_t depth = widen_row(wide, row, f);
  memcpy(to, wide, 4 * depth);
  return depth;
}

/* Put units of `size` bytes in their places: two of four in a chunk, or one of two. */
static void place_units(uint8_t *to, const uint8_t *from, uint32_t chunks, uint32_t size,
                        bool single, uint64_t metadata) {
  for (uint32_t chunk = 0; chunk < chunks; chunk++, metadata >>= 4) {
    const uint32_t first = metadata & 3, second = metadata >> 2 & 3;
    if (single) {
      memcpy(to + (2 * chunk + (first >> 1)) * size, from + chunk * size, size);
      continue;
    }
    memcpy(to + (4 * chunk + first) * size, from + 2 * chunk * size, size);
    memcpy(to + (4 * chunk + second) * size, from + (2 * chunk + 1) * size, size);
  }
}

void tw_tensor_expand(uint32_t *words, uint32_t depth, const tensor_factor *f, uint64_t metadata) {
  uint32_t stored[TENSOR_DEPTH / 2];
  const bool single = f->kind == TF32, in_pairs = f->kind == MXF4 || f->kind == MXF4NVF4;
  const uint32_t size = f->how == TENSOR_PAIRS ? 2 : in_pairs ? 8 : 4;
  const uint32_t chunks = 4 * depth / size / (single ? 1 : 2);
  memcpy(stored, words, 4 * depth);
  memset(words, 0, 8 * depth);
  place_units((uint8_t *)words, (const uint8_t *)stored, chunks, size, single, metadata);
}

void tw_tensor_scales(double *to, uint32_t depth, uint8_t *base, const tensor_scaling *s,
                      uint32_t index) {
  const uint32_t lane = (s->address >> 16) + index % 32;
  const uint8_t *bytes = tensor_lane_at(base, lane, (s->address & 0xffff) + index / 32);
  pthread_once(&filled, fill_values);
  for (uint32_t k = 0, n = s->first; k < depth; k += s->each, n++)
    *to++ = values[s->format][bytes[n & 3] & (s->format == E4M3 ? 127 : 255)];
}
