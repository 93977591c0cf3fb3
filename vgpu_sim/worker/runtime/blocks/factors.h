#pragma once
/* The factors of TMMA: which bytes they are (factors.c), and which numbers. */
#include "base/internal.h"
#include "blocks/tensor.h"

enum { F16, TF32, F8F6F4, I8, MXF8F6F4, MXF4, MXF4NVF4, KINDS };
enum { E4M3, E5M2, E2M3 = 3, E3M2, E2M1, UE8M0, FORMATS };

/* A descriptor of shared memory, decoded (PTX ISA, "Shared memory descriptor"). */
typedef struct tensor_matrix {
  const uint8_t *base;
  uint32_t bytes, start, line, mask, pattern, along, beside, near, wide;
  bool narrow_atom; /* 128 bytes are swizzled by 32 bytes */
} tensor_matrix;

typedef struct tensor_factor {
  uint32_t kind, format;
  tensor_how how;
  bool in_tensor, negated;
} tensor_factor;

/* The scales of a factor: `each` elements of depth have one, of which byte `first` is the first. */
typedef struct tensor_scaling {
  uint32_t address, first, each, format;
} tensor_scaling;

/* Return the address of a word of tensor memory. */
static inline uint8_t *tensor_lane_at(uint8_t *base, uint32_t lane, uint32_t column) {
  return base + TESSERA_TENSOR_FIRST_BYTE +
         lane % TESSERA_TENSOR_LANES * TESSERA_TENSOR_LANE_BYTES +
         4 * (column % TESSERA_TENSOR_COLUMNS);
}

/* Return whether elements of a kind may have a format. */
bool tw_tensor_is_format(uint32_t kind, uint32_t format);

/* `across`: the matrix is contiguous along its rows' number, not along its depth. */
tensor_matrix tw_tensor_decode(const uint8_t *base, uint32_t bytes, uint32_t low, uint32_t high,
                               bool across);

/* Copy `count` rows of `row_bytes`, in order of depth. Elements have `size` bytes. Returns false if
 * one is outside the block's memory. */
bool tw_tensor_gather(uint8_t *to, const tensor_matrix *m, uint32_t count, bool across,
                      uint32_t size, uint32_t row_bytes);

/* Store the words of a row of TENSOR_FACTOR_BYTES; return how many. */
uint32_t tw_tensor_prepare(uint32_t *to, const uint8_t *row, const tensor_factor *f);

/* Put the elements of a row of A of which half are stored in their places among zeros. `words` has
 * `depth` words, and then twice as many. Four bits of `metadata` place the elements of a chunk. */
void tw_tensor_expand(uint32_t *words, uint32_t depth, const tensor_factor *f, uint64_t metadata);

/* Store the scales of row `index` of a factor, one for each `each` elements of `depth`. */
void tw_tensor_scales(double *to, uint32_t depth, uint8_t *base, const tensor_scaling *s,
                      uint32_t index);
