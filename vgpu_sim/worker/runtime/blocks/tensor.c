/* TMMA, the product of tcgen05.mma: one thread's, in the shared and tensor memory of its block, or
 * of a pair of blocks.
 *
 * The words of TMMA come from the program. The compiler's code has tested the addresses in tensor
 * memory and the instruction descriptor; here they are reduced to what exists, and each row of 16
 * bytes in shared memory is tested. */
#define _GNU_SOURCE
#include "blocks/tensor.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "base/internal.h"
#include "blocks/cta.h"
#include "blocks/factors.h"

/* Places of words; SCALES or, without scales, MASK. */
enum { D, A, B = 3, INSTRUCTION = 5, FLAGS, SHARED_BYTES, SCALES, MASK = SCALES };
enum { KIND = 7, ADDS = 8, IN_TENSOR = 16, PAIR = 128, STATIONARY = 256, SPARSE = 512,
       SHIFTED = 1024, ZEROED = 2048 }; /* in FLAGS */
enum { SCALES_SHIFT = 5, POWER_SHIFT = 12, PLACES_SHIFT = 16, LANE_SHIFT = 25 };
enum { BLOCKS = 2, MASK_WORDS = 4, MOST_SCALES = 4, SCALES_FIELDS = 3 };

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
  uint8_t left_rows[BLOCKS][TENSOR_ROWS * TENSOR_FACTOR_BYTES];
  uint8_t right_rows[TENSOR_MOST_COLUMNS * TENSOR_MOST_BYTES];
  uint32_t left[TENSOR_ROWS][TENSOR_DEPTH];
  uint32_t right[TENSOR_DEPTH][TENSOR_PITCH];
  uint32_t totals[4][TENSOR_PITCH], sums[4][TENSOR_PITCH];
  double wide[4][TENSOR_PITCH];
  double left_scales[TENSOR_ROWS][MOST_SCALES];
  double right_scales[MOST_SCALES][TENSOR_PITCH];
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

/* A product. Each of `blocks` blocks has `rows` rows of A and D. D's columns are in `parts` parts,
 * which are in the same columns of tensor memory, and in lanes one after the other. */
typedef struct product {
  uint8_t *bases[BLOCKS];
  uint32_t blocks, kind, rows, parts, columns, depth, shift, each;
  bool scattered; /* 16 rows are in the first half of 32 lanes */
  bool adds, halves; /* halves: D is F16 */
  bool sparse, shifted; /* of A: half is stored; row n is row n - 1, except the first */
  uint32_t places; /* the address of the metadata of a sparse A */
  tensor_how how;
} product;

/* Return the lane of row `place` of a matrix that begins at an address; rows of all parts count. */
static uint32_t lane_of(const product *p, uint32_t address, uint32_t place) {
  return (address >> 16) + (p->scattered ? place / 16 * 32 + place % 16 : place);
}

/* Find the memory of the blocks; false: there is no pair, or they have no tensor memory. */
static bool find_blocks(product *p, uint64_t shared_base, bool pair) {
  if (tw_current.shared_bytes < TESSERA_TENSOR_END_BYTE) return false;
  p->blocks = 1;
  p->bases[0] = (uint8_t *)(uintptr_t)shared_base;
  if (!pair) return true;
  const uint32_t even = tw_current.rank & ~1u;
  if (tw_current.bases == NULL || even + 1 >= tw_current.blocks) return false;
  p->blocks = BLOCKS;
  for (uint32_t i = 0; i < BLOCKS; i++)
    p->bases[i] = (uint8_t *)(uintptr_t)tw_current.bases[even + i];
  return true;
}

/* Return whether the field that states the elements of a scale is legal: it has two bits for three
 * values, and MXF8F6F4 has no row of 64 elements. A row has at most MOST_SCALES scales then. */
static bool is_scale_field(uint32_t kind, uint32_t field) {
  return field < SCALES_FIELDS && (kind != MXF8F6F4 || field != 0);
}

/* Decode the words except the matrices; false: they are illegal. */
static bool decode_product(product *p, const uint32_t *words) {
  const uint32_t idesc = words[INSTRUCTION], flags = words[FLAGS];
  const bool scaled = (flags & KIND) >= MXF8F6F4, stationary = flags & STATIONARY;
  p->kind = flags & KIND;
  if (p->kind >= KINDS || !is_scale_field(p->kind, flags >> SCALES_SHIFT & 3)) return false;
  const uint32_t rows = (idesc >> (scaled ? 27 : 24) & (scaled ? 3 : 31)) << (scaled ? 7 : 4);
  p->rows = rows / p->blocks;
  if (p->rows != 128 && p->rows != 64 && !(stationary && p->rows == 32)) return false;
  const bool full = stationary || p->blocks > 1;
  p->parts = full ? TENSOR_ROWS / p->rows : 1;
  p->scattered = !full && p->rows == 64;
  p->columns = (idesc >> 17 & 63) << 3;
  const uint32_t split = p->parts > p->blocks ? p->parts : p->blocks;
  if (p->columns == 0 || p->columns > TENSOR_MOST_COLUMNS || p->columns % (8 * split)) return false;
  if ((words[D] & 0xffff) + p->columns / p->parts > TESSERA_TENSOR_COLUMNS) return false;
  if ((flags & IN_TENSOR) && (words[A] & 0xffff) + 8 > TESSERA_TENSOR_COLUMNS) return false;
  if ((flags & SPARSE) && (flags >> PLACES_SHIFT & 511) == TESSERA_TENSOR_COLUMNS - 1 &&
      p->kind != F16 && p->kind != TF32)
    return false;
  p->shift = flags >> POWER_SHIFT & 15;
  p->adds = flags & ADDS;
  p->how = p->kind == I8 ? TENSOR_INTEGERS
           : p->kind == F16 && (idesc >> 7 & 7) == 1 ? TENSOR_PAIRS : TENSOR_FLOATS;
  p->halves = (p->kind == F16 || p->kind == F8F6F4) && (idesc >> 4 & 3) == 0;
  p->sparse = flags & SPARSE;
  p->shifted = flags & SHIFTED;
  p->places = (flags >> LANE_SHIFT) << 16 | (flags >> PLACES_SHIFT & 511);
  p->each = scaled ? 64u >> (flags >> SCALES_SHIFT & 3) << p->sparse : 0;
  return true;
}

/* Copy a row of D to a row of totals, or back. */
static void read_totals(uint32_t *to, const uint8_t *from, const product *p, uint32_t columns) {
  memcpy(to, from, 4 * columns);
  for (uint32_t n = 0; p->halves && n < columns; n += 8) {
    uint16_t halves[16] = {0};
    float wide[16];
    for (int i = 0; i < 8; i++) halves[i] = (uint16_t)to[n + i];
    tw_tensor_widen(wide, halves);
    memcpy(to + n, wide, 8 * sizeof *wide);
  }
  for (uint32_t n = 0; p->shift != 0 && n < columns; n++) {
    float value;
    memcpy(&value, to + n, sizeof value);
    value = ldexpf(value, -(int)p->shift);
    memcpy(to + n, &value, sizeof value);
  }
}

static void write_totals(uint8_t *to, uint32_t *from, const product *p, uint32_t columns) {
  for (uint32_t n = 0; p->halves && n < columns; n++) {
    float value;
    memcpy(&value, from + n, sizeof value);
    from[n] = narrow(value);
  }
  memcpy(to, from, 4 * columns);
}

/* Add to four rows of totals the products of a block of depth with its scales. */
static void add_block(scratch *t, const product *p, const tensor_quad *whole, uint32_t block,
                      uint32_t place, uint32_t first_column) {
  tensor_quad s = *whole;
  s.zero = true;
  s.depth = p->each;
  s.right += (size_t)block * p->each * TENSOR_PITCH;
  for (uint32_t i = 0; i < 4; i++) {
    s.left[i] += block * p->each;
    s.rows[i] = t->sums[i];
  }
  tw_tensor_quad(p->how, &s);
  const double *right = t->right_scales[block] + first_column;
  for (uint32_t i = 0; i < 4; i++) {
    float sums[TENSOR_PITCH];
    memcpy(sums, t->sums[i], sizeof sums);
    const double left = t->left_scales[place + i][block];
    for (uint32_t n = 0; n < s.columns; n++) t->wide[i][n] += sums[n] * (left * right[n]);
  }
}

/* Multiply four rows with scales: totals are binary64, and rounded once at the end. */
static void multiply_scaled(scratch *t, const product *p, const tensor_quad *s, uint32_t place,
                            uint32_t first_column) {
  for (uint32_t i = 0; i < 4; i++) {
    float before[TENSOR_PITCH];
    memcpy(before, t->totals[i], sizeof before);
    for (uint32_t n = 0; n < s->columns; n++) t->wide[i][n] = s->zero ? 0 : before[n];
  }
  for (uint32_t block = 0; block < p->depth / p->each; block++)
    add_block(t, p, s, block, place, first_column);
  for (uint32_t i = 0; i < 4; i++)
    for (uint32_t n = 0; n < s->columns; n++) {
      const float total = (float)t->wide[i][n];
      memcpy(&t->totals[i][n], &total, sizeof total);
      if (isnan(total)) t->totals[i][n] = TENSOR_NAN;
    }
}

/* Multiply four rows from `place` on, except those whose lanes are in the mask. */
static void multiply_quad(scratch *t, const product *p, const uint32_t *words, uint32_t half,
                          uint32_t place) {
  const uint32_t columns = p->columns / p->parts, first_column = place / p->rows * columns;
  const bool direct = !p->halves && p->shift == 0 && columns % 16 == 0 && p->each == 0;
  tensor_quad s = {.right = t->right[0] + first_column,
                   .columns = (columns + 15) & ~15u,
                   .depth = p->depth,
                   .zero = !p->adds};
  const bool masked = p->each == 0 && !(words[FLAGS] & STATIONARY);
  const uint32_t *mask = words + MASK + MASK_WORDS * half;
  uint8_t *places[4];
  bool written[4];
  for (uint32_t i = 0; i < 4; i++) {
    const uint32_t lane = lane_of(p, words[D], place + i);
    places[i] = tensor_lane_at(p->bases[half], lane, words[D] & 0xffff);
    written[i] = !masked || (mask[lane % 128 / 32] >> lane % 32 & 1) == 0;
    s.left[i] = t->left[place + i];
    s.rows[i] = direct && written[i] ? (uint32_t *)(void *)places[i] : t->totals[i];
    if (p->adds && s.rows[i] == t->totals[i]) read_totals(t->totals[i], places[i], p, columns);
  }
  if (p->each != 0)
    multiply_scaled(t, p, &s, place, first_column);
  else
    tw_tensor_quad(p->how, &s);
  for (uint32_t i = 0; i < 4; i++)
    if (written[i] && s.rows[i] == t->totals[i]) write_totals(places[i], t->totals[i], p, columns);
}

/* Copy the rows of factors that are in shared memory; false: some are outside it. */
static bool gather_all(scratch *t, const product *p, const uint32_t *words) {
  const uint32_t idesc = words[INSTRUCTION], limit = TESSERA_TENSOR_FIRST_BYTE;
  const uint32_t bytes = words[SHARED_BYTES] < limit ? words[SHARED_BYTES] : limit;
  const uint32_t size = p->kind == F16 ? 2 : p->kind == TF32 ? 4 : 1;
  const uint32_t columns = p->columns / p->blocks;
  const bool across_a = idesc >> 15 & 1, across_b = idesc >> 16 & 1;
  for (uint32_t half = 0; half < p->blocks; half++) {
    const uint8_t *base = p->bases[half];
    const tensor_matrix b = tw_tensor_decode(base, bytes, words[B], words[B + 1], across_b);
    const uint32_t row_bytes = TENSOR_FACTOR_BYTES << p->sparse;
    uint8_t *right = t->right_rows + half * columns * row_bytes;
    if (!tw_tensor_gather(right, &b, columns, across_b, size, row_bytes)) return false;
    if (words[FLAGS] & IN_TENSOR) continue;
    const tensor_matrix a = tw_tensor_decode(base, bytes, words[A], words[A + 1], across_a);
    if (!tw_tensor_gather(t->left_rows[half], &a, p->rows, across_a, size, TENSOR_FACTOR_BYTES))
      return false;
  }
  return true;
}

/* Return the metadata of a row of A. Elements of 16 bits and more have 16 bits of it in each of two
 * lanes, which are shared by two rows; others have two words in the row's lane. */
static uint64_t read_places(const product *p, uint32_t place, uint32_t half) {
  const uint32_t row = place % p->rows, column = p->places & 0xffff;
  uint32_t words[2];
  if (p->kind != F16 && p->kind != TF32) {
    memcpy(words, tensor_lane_at(p->bases[half], lane_of(p, p->places, place), column), 8);
    return (uint64_t)words[1] << 32 | words[0];
  }
  const uint32_t first = place - row % 16 + row % 8, shift = row % 16 / 8 * 16;
  for (uint32_t i = 0; i < 2; i++)
    memcpy(&words[i],
           tensor_lane_at(p->bases[half], lane_of(p, p->places, first + 8 * i), column), 4);
  return (words[0] >> shift & 0xffff) | (words[1] >> shift & 0xffff) << 16;
}

static void prepare_left(scratch *t, const product *p, const tensor_factor *f,
                         const tensor_scaling *s, const uint32_t *words, uint32_t half) {
  for (uint32_t place = 0; place < p->rows * p->parts; place++) {
    const uint32_t from = p->shifted && place % p->rows != 0 ? place - 1 : place;
    const uint8_t *row = t->left_rows[half] + from % p->rows * TENSOR_FACTOR_BYTES;
    if (f->in_tensor)
      row = tensor_lane_at(p->bases[half], lane_of(p, words[A], from), words[A] & 0xffff);
    const uint32_t depth = tw_tensor_prepare(t->left[place], row, f);
    if (p->sparse) tw_tensor_expand(t->left[place], depth, f, read_places(p, from, half));
    if (s->each != 0)
      tw_tensor_scales(t->left_scales[place], p->depth, p->bases[half], s, place % p->rows);
  }
}

/* Return whether a column of B is zeros by the descriptor of .ws: each part of the columns has a
 * mask, whose spans of ones and zeros alternate. */
static bool is_zero_column(const product *p, const uint32_t *words, uint32_t column) {
  const uint64_t mask = (uint64_t)words[MASK + 1] << 32 | words[MASK];
  if (!(words[FLAGS] & ZEROED) || !(mask >> 39 & 1)) return false;
  const uint32_t each = p->columns / p->parts, part = column / each;
  const uint32_t used = (mask >> 40 & 255) + 1, zeros = (mask >> 48 & 255) + 1;
  const bool ones_first = mask >> (32 + part) & 1;
  const uint32_t at = ((mask >> 8 * part & 255) + column % each) % (used + zeros);
  return ones_first ? at < zeros : at >= used;
}

static void prepare_right(scratch *t, product *p, const tensor_factor *f, const uint32_t *words) {
  const uint32_t parts = p->sparse ? 2 : 1;
  for (uint32_t n = 0; n < p->columns; n++) {
    uint32_t row[TENSOR_DEPTH];
    uint8_t *bytes = t->right_rows + n * parts * TENSOR_FACTOR_BYTES;
    if (is_zero_column(p, words, n)) memset(bytes, 0, parts * TENSOR_FACTOR_BYTES);
    p->depth = 0;
    for (uint32_t part = 0; part < parts; part++, bytes += TENSOR_FACTOR_BYTES)
      p->depth += tw_tensor_prepare(row + p->depth, bytes, f);
    for (uint32_t k = 0; k < p->depth; k++) t->right[k][n] = row[k];
  }
}

static void prepare_right_scales(scratch *t, const product *p, const tensor_scaling *s,
                                 uint32_t half) {
  for (uint32_t n = 0; s->each != 0 && n < p->columns; n++) {
    double scales[TENSOR_DEPTH];
    tw_tensor_scales(scales, p->depth, p->bases[half], s, n);
    for (uint32_t k = 0; k < p->depth / s->each; k++) t->right_scales[k][n] = scales[k];
  }
}

uint32_t tw_tensor_multiply(uint64_t shared_base, const uint32_t *words) {
  const uint32_t idesc = words[INSTRUCTION], flags = words[FLAGS], kind = flags & KIND;
  product p = {0};
  if (!find_blocks(&p, shared_base, flags & PAIR) || !decode_product(&p, words)) return 1;
  const uint32_t most = kind == MXF4 || kind == MXF4NVF4 ? 3 : 7;
  const tensor_factor fa = {kind, idesc >> 7 & 7, p.how, flags & IN_TENSOR, idesc >> 13 & 1};
  const tensor_factor fb = {kind, idesc >> 10 & most, p.how, false, idesc >> 14 & 1};
  if (!tw_tensor_is_format(kind, fa.format) || !tw_tensor_is_format(kind, fb.format)) return 1;
  const uint32_t type = idesc >> 23 & 1 ? UE8M0 : E4M3;
  const tensor_scaling sa = {words[SCALES], idesc >> 29 & 3, p.each, type};
  const tensor_scaling sb = {words[SCALES + 1], idesc >> 4 & 3, p.each, type};
  scratch *t = get_scratch();
  if (!gather_all(t, &p, words)) return 1;
  prepare_right(t, &p, &fb, words);
  for (uint32_t half = 0; half < p.blocks; half++) {
    prepare_left(t, &p, &fa, &sa, words, half);
    prepare_right_scales(t, &p, &sb, half);
    for (uint32_t place = 0; place < p.rows * p.parts; place += 4)
      multiply_quad(t, &p, words, half, place);
  }
  return 0;
}
