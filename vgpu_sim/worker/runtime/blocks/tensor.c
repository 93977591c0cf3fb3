/* TMMA, the product of tcgen05.mma: one thread's, in the shared and tensor memory of its block.
 *
 * The words of TMMA come from the program. The compiler's code has tested the addresses in tensor
 * memory and the instruction descriptor; here they are reduced to what exists, and each row of 16
 * bytes in shared memory is tested. */
#define _GNU_SOURCE
#include "blocks/tensor.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/internal.h"
#include "blocks/cta.h"

enum { F16, TF32, F8F6F4, I8, MXF8F6F4, MXF4, MXF4NVF4 }; /* kinds */
enum { KIND, D, A, B = 4, INSTRUCTION = 6, FLAGS, SCALE_A, SCALE_B, SHIFT, SHARED_BYTES, MASK };
enum { ADDS = 1, IN_TENSOR = 2 };
enum { E4M3, E5M2, E2M3 = 3, E3M2, E2M1, UE8M0, FORMATS };

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

/* A descriptor of shared memory, decoded (PTX ISA, "Shared memory descriptor"). */
typedef struct matrix {
  const uint8_t *base;
  uint32_t bytes, start, line, mask, pattern, along, beside, near, wide;
  bool narrow_atom; /* 128 bytes are swizzled by 32 bytes */
} matrix;

static matrix decode_matrix(const uint8_t *base, uint32_t bytes, uint32_t low, uint32_t high,
                            bool across) {
  const uint32_t mode = high >> 29, leading = (low >> 16 & 0x3fff) << 4;
  const uint32_t stride = (high & 0x3fff) << 4;
  const uint32_t shift = mode == 6 ? 1 : mode == 4 ? 2 : mode == 0 ? 0 : 3;
  matrix m = {.base = base, .bytes = bytes, .start = (low & 0x3fff) << 4, .wide = shift};
  m.line = 16u << shift;
  m.mask = m.line - 16;
  m.narrow_atom = mode == 1;
  m.pattern = (high >> 17 & 7) << 7;
  m.beside = across && shift != 0 ? leading : stride;
  m.along = across ? (shift == 0 ? leading : stride) : shift == 0 ? leading : 16;
  m.near = shift == 0 ? m.beside : 16;
  return m;
}

static const uint8_t *find_row(const matrix *m, uint32_t place) {
  const uint32_t distance = place - m->pattern;
  if (m->narrow_atom)
    place ^= distance >> 2 & 0x60;
  else
    place ^= distance >> 3 & m->mask;
  return m->bytes < 16 || place > m->bytes - 16 ? NULL : m->base + place;
}

/* Copy `count` rows of 32 bytes, in order of depth. Elements have `size` bytes. */
static bool gather(uint8_t *to, const matrix *m, uint32_t count, bool across, uint32_t size) {
  if (!across) {
    for (uint32_t row = 0; row < count; row++)
      for (uint32_t half = 0; half < 2; half++) {
        const uint32_t at = m->start + row % 8 * m->line + row / 8 * m->beside + half * m->along;
        const uint8_t *from = find_row(m, at);
        if (from == NULL) return false;
        memcpy(to + row * TENSOR_FACTOR_BYTES + 16 * half, from, 16);
      }
    return true;
  }
  const uint32_t each = 16 / size, depth = TENSOR_FACTOR_BYTES / size, inside = (1u << m->wide) - 1;
  for (uint32_t k = 0; k < depth; k++)
    for (uint32_t first = 0; first < count; first += each) {
      const uint32_t chunk = first / each;
      const uint32_t at = m->start + k % 8 * m->line + k / 8 * m->along +
                          (chunk & inside) * m->near + (chunk >> m->wide) * m->beside;
      const uint8_t *from = find_row(m, at);
      if (from == NULL) return false;
      for (uint32_t i = 0; i < each && first + i < count; i++)
        memcpy(to + (first + i) * TENSOR_FACTOR_BYTES + k * size, from + i * size, size);
    }
  return true;
}

static uint8_t *lane_at(uint8_t *base, uint32_t lane, uint32_t column) {
  return base + TESSERA_TENSOR_FIRST_BYTE + lane % TESSERA_TENSOR_LANES * TESSERA_TENSOR_LANE_BYTES +
         4 * (column % TESSERA_TENSOR_COLUMNS);
}

/* Return the lane of a row of a matrix of `rows` rows that begins at an address. */
static uint32_t lane_of(uint32_t address, uint32_t row, uint32_t rows) {
  return (address >> 16) + (rows == 64 ? row / 16 * 32 + row % 16 : row);
}

/* Return element `k` of a row of 8-bit containers. In shared memory 16 elements of 6 or 4 bits are
 * packed at the beginning of 16 bytes; in tensor memory each has a byte, of 4 bits in the middle. */
static uint32_t container(const uint8_t *row, uint32_t k, uint32_t format, bool in_tensor) {
  if (format <= E5M2) return row[k];
  if (in_tensor) return format == E2M1 ? row[k] >> 2 & 15 : row[k] & 63;
  const uint8_t *part = row + (k & 16);
  const uint32_t width = format == E2M1 ? 4 : 6, bit = (k & 15) * width;
  const uint32_t word = part[bit / 8] | (uint32_t)part[bit / 8 + 1] << 8;
  return word >> bit % 8 & ((1u << width) - 1);
}

typedef struct factor {
  const uint8_t *rows;
  uint32_t format;
  bool in_tensor, negated;
} factor;

static bool is_narrow(uint32_t kind) { return kind == F8F6F4 || kind == MXF8F6F4; }

/* Widen a row to floats; return how many. */
static uint32_t widen_row(float *to, const factor *f, uint32_t row, uint32_t kind) {
  const uint8_t *from = f->rows + row * TENSOR_FACTOR_BYTES;
  uint32_t depth;
  if (kind == F16) {
    uint16_t halves[16];
    memcpy(halves, from, sizeof halves);
    tw_tensor_widen(to, halves);
    depth = 16;
  } else if (kind == TF32) {
    uint32_t words[8];
    memcpy(words, from, sizeof words);
    for (int k = 0; k < 8; k++) words[k] &= 0xffffe000;
    memcpy(to, words, sizeof words);
    depth = 8;
  } else if (is_narrow(kind)) {
    const uint32_t format = f->format <= E2M1 ? f->format : E4M3;
    if (format <= E5M2)
      for (uint32_t k = 0; k < 32; k++) to[k] = values[format][from[k]];
    else
      for (uint32_t k = 0; k < 32; k++)
        to[k] = values[format][container(from, k, format, f->in_tensor)];
    depth = 32;
  } else {
    for (uint32_t k = 0; k < 64; k++) to[k] = values[E2M1][from[k / 2] >> 4 * (k & 1) & 15];
    depth = 64;
  }
  if (f->negated)
    for (uint32_t k = 0; k < depth; k++) to[k] = -to[k];
  return depth;
}

/* The scales of a factor: `each` elements of depth have one, of which byte `first` is the first. */
typedef struct scaling {
  uint32_t address, first, each, format;
} scaling;

static void scale_row(float *row, uint32_t depth, uint8_t *base, const scaling *s, uint32_t index) {
  const uint32_t lane = (s->address >> 16) + index % 32, column = (s->address & 0xffff) + index / 32;
  const uint8_t *bytes = lane_at(base, lane, column);
  for (uint32_t k = 0, n = s->first; k < depth; k += s->each, n++) {
    const float scale = values[s->format][bytes[n & 3] & (s->format == E4M3 ? 127 : 255)];
    for (uint32_t i = 0; i < s->each; i++) row[k + i] *= scale;
  }
}

/* Return a row of words for pairs of bfloat16, or integers. */
static uint32_t split_row(uint32_t *to, const factor *f, uint32_t row, tensor_how how) {
  const uint8_t *from = f->rows + row * TENSOR_FACTOR_BYTES;
  if (how == TENSOR_PAIRS) {
    memcpy(to, from, TENSOR_FACTOR_BYTES);
    for (int k = 0; f->negated && k < 8; k++) to[k] ^= 0x80008000;
    return 8;
  }
  for (uint32_t k = 0; k < 32; k++) to[k] = f->format ? (uint32_t)(int8_t)from[k] : from[k];
  return 32;
}

static uint16_t narrow(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (magnitude < 0x38800000) /* subnormal: rounded by an addition */
  {
    float size;
    memcpy(&size, &magnitude, sizeof size);
    size += 0.5f;
    memcpy(&bits, &size, sizeof bits);
    return (uint16_t)(sign | (bits - 0x3f000000));
  }
  return (uint16_t)(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13));
}

/* The prepared factors, and rows of D where it is not changed in place. */
typedef struct scratch {
  uint8_t left_rows[TENSOR_ROWS * TENSOR_FACTOR_BYTES];
  uint8_t right_rows[TENSOR_MOST_COLUMNS * TENSOR_FACTOR_BYTES];
  uint32_t left[TENSOR_ROWS][TENSOR_DEPTH];
  uint32_t right[TENSOR_DEPTH][TENSOR_PITCH];
  uint32_t totals[4][TENSOR_MOST_COLUMNS];
} scratch;

static __thread scratch *own; /* NULL: the thread has executed no product */

static scratch *get_scratch(void) {
  if (own == NULL) {
    void *memory =
        mmap(NULL, sizeof *own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) tw_die_out_of_memory("no memory for a product of tcgen05");
    own = memory;
  }
  return own;
}

void tw_tensor_end_thread(void) {
  if (own != NULL) munmap(own, sizeof *own);
  own = NULL;
}

typedef struct product {
  uint32_t kind, rows, columns, shift;
  bool adds, halves; /* halves: D is F16 */
  tensor_how how;
} product;

static void prepare(uint8_t *base, const product *p, const factor *f, const scaling *s,
                    uint32_t row, uint32_t *to, uint32_t *depth) {
  if (p->how != TENSOR_FLOATS) {
    *depth = split_row(to, f, row, p->how);
    return;
  }
  float wide[TENSOR_DEPTH];
  *depth = widen_row(wide, f, row, p->kind);
  if (p->kind >= MXF8F6F4) scale_row(wide, *depth, base, s, row);
  memcpy(to, wide, 4 * *depth);
}

/* Copy a row of D to a row of totals, or back. */
static void read_totals(uint32_t *to, const uint8_t *from, const product *p) {
  memcpy(to, from, 4 * p->columns);
  for (uint32_t n = 0; p->halves && n < p->columns; n += 8) {
    uint16_t halves[16] = {0};
    float wide[16];
    for (int i = 0; i < 8; i++) halves[i] = (uint16_t)to[n + i];
    tw_tensor_widen(wide, halves);
    memcpy(to + n, wide, 8 * sizeof *wide);
  }
  for (uint32_t n = 0; p->shift != 0 && n < p->columns; n++) {
    float value;
    memcpy(&value, to + n, sizeof value);
    value = ldexpf(value, -(int)p->shift);
    memcpy(to + n, &value, sizeof value);
  }
}

static void write_totals(uint8_t *to, uint32_t *from, const product *p) {
  for (uint32_t n = 0; p->halves && n < p->columns; n++) {
    float value;
    memcpy(&value, from + n, sizeof value);
    from[n] = narrow(value);
  }
  memcpy(to, from, 4 * p->columns);
}

/* Multiply four rows from `first` on, except those whose lanes are in the mask. */
static void multiply_quad(scratch *t, uint8_t *base, const product *p, const uint32_t *words, uint32_t first,
                           uint32_t depth) {
  const bool direct = !p->halves && p->shift == 0 && p->columns % 16 == 0;
  tensor_quad s = {.right = t->right[0], .columns = (p->columns + 15) & ~15u, .depth = depth,
                    .zero = !p->adds};
  uint8_t *places[4];
  bool written[4];
  for (uint32_t i = 0; i < 4; i++) {
    const uint32_t row = first + i;
    const uint32_t lane = lane_of(words[D], row, p->rows);
    places[i] = lane_at(base, lane, words[D] & 0xffff);
    written[i] = (words[MASK + lane % 128 / 32] >> lane % 32 & 1) == 0;
    s.left[i] = t->left[row];
    s.rows[i] = direct && written[i] ? (uint32_t *)(void *)places[i] : t->totals[i];
    if (p->adds && s.rows[i] == t->totals[i]) read_totals(t->totals[i], places[i], p);
  }
  tw_tensor_quad(p->how, &s);
  for (uint32_t i = 0; i < 4; i++)
    if (written[i] && s.rows[i] == t->totals[i]) write_totals(places[i], t->totals[i], p);
}

uint32_t tw_tensor_multiply(uint64_t shared_base, const uint32_t *words) {
  pthread_once(&filled, fill_values);
  uint8_t *base = (uint8_t *)(uintptr_t)shared_base;
  const uint32_t kind = words[KIND], idesc = words[INSTRUCTION];
  const bool scaled = kind >= MXF8F6F4, in_tensor = words[FLAGS] & IN_TENSOR;
  const uint32_t bytes =
      words[SHARED_BYTES] < TESSERA_TENSOR_FIRST_BYTE ? words[SHARED_BYTES] : TESSERA_TENSOR_FIRST_BYTE;
  product p = {.kind = kind,
               .rows = (idesc >> (scaled ? 27 : 24) & (scaled ? 3 : 31)) << (scaled ? 7 : 4),
               .columns = (idesc >> 17 & 63) << 3,
               .shift = words[SHIFT],
               .adds = words[FLAGS] & ADDS,
               .how = TENSOR_FLOATS};
  p.rows = p.rows == 64 ? 64 : 128;
  if (p.columns > TENSOR_MOST_COLUMNS) p.columns = TENSOR_MOST_COLUMNS;
  if ((words[D] & 0xffff) + p.columns > TESSERA_TENSOR_COLUMNS) return 1;
  if (in_tensor && (words[A] & 0xffff) + 8 > TESSERA_TENSOR_COLUMNS) return 1;
  if (kind == I8)
    p.how = TENSOR_INTEGERS;
  else if (kind == F16 && (idesc >> 7 & 7) == 1)
    p.how = TENSOR_PAIRS;
  p.halves = (kind == F16 || kind == F8F6F4) && (idesc >> 4 & 3) == 0;
  scratch *t = get_scratch();
  const bool across_a = idesc >> 15 & 1, across_b = idesc >> 16 & 1;
  const uint32_t size = kind == F16 ? 2 : kind == TF32 ? 4 : 1;
  const matrix b = decode_matrix(base, bytes, words[B], words[B + 1], across_b);
  if (!gather(t->right_rows, &b, p.columns, across_b, size)) return 1;
  if (in_tensor) {
    for (uint32_t row = 0; row < p.rows; row++) {
      const uint32_t lane = lane_of(words[A], row, p.rows);
      memcpy(t->left_rows + row * TENSOR_FACTOR_BYTES, lane_at(base, lane, words[A] & 0xffff),
             TENSOR_FACTOR_BYTES);
    }
  } else {
    const matrix a = decode_matrix(base, bytes, words[A], words[A + 1], across_a);
    if (!gather(t->left_rows, &a, p.rows, across_a, size)) return 1;
  }
  const factor fa = {t->left_rows, idesc >> 7 & 7, in_tensor, idesc >> 13 & 1};
  const factor fb = {t->right_rows, idesc >> 10 & (scaled && kind != MXF8F6F4 ? 3 : 7), false,
                     idesc >> 14 & 1};
  const uint32_t each = 64u >> (words[FLAGS] >> 2 & 3), type = idesc >> 23 & 1 ? UE8M0 : E4M3;
  const scaling sa = {words[SCALE_A], idesc >> 29 & 3, each, type};
  const scaling sb = {words[SCALE_B], idesc >> 4 & 3, each, type};
  uint32_t depth = 0;
  for (uint32_t row = 0; row < p.rows; row++) prepare(base, &p, &fa, &sa, row, t->left[row], &depth);
  for (uint32_t n = 0; n < p.columns; n++) {
    uint32_t row[TENSOR_DEPTH];
    prepare(base, &p, &fb, &sb, n, row, &depth);
    for (uint32_t k = 0; k < depth; k++) t->right[k][n] = row[k];
  }
  for (uint32_t row = 0; row < p.rows; row += 4) multiply_quad(t, base, &p, words, row, depth);
  return 0;
}
