#pragma once
/* The products of tcgen05.mma: factors are gathered and widened (tensor.c), then multiplied
 * (products.c). */
#include <stdbool.h>
#include <stdint.h>

enum {
  TENSOR_ROWS = 128,       /* most rows of A */
  TENSOR_MOST_COLUMNS = 256,
  TENSOR_PITCH = 272,      /* words of a row of B: no power of two, so that rows share no sets */
  TENSOR_DEPTH = 128,      /* most elements of a row */
  TENSOR_FACTOR_BYTES = 32, /* a row of A, and of B if A is dense; else B's have twice as many */
  TENSOR_MOST_BYTES = 2 * TENSOR_FACTOR_BYTES,
  TENSOR_NAN = 0x7fffffff
};

/* How the words of prepared factors are multiplied. */
typedef enum tensor_how {
  TENSOR_FLOATS,  /* a word is a float */
  TENSOR_PAIRS,   /* a word is two bfloat16 */
  TENSOR_INTEGERS /* a word is a signed integer */
} tensor_how;

/* Four rows of D, and the factors. A row of the left factor has `depth` words. The right one has
 * for each depth a row of TENSOR_PITCH words. */
typedef struct tensor_quad {
  uint32_t *rows[4];
  const uint32_t *left[4];
  const uint32_t *right;
  uint32_t columns, depth; /* columns: a multiple of 16 */
  bool zero;               /* D is not added */
} tensor_quad;

void tw_tensor_quad(tensor_how how, const tensor_quad *s);

/* Widen 16 halves to floats. */
void tw_tensor_widen(float *to, const uint16_t *halves);
