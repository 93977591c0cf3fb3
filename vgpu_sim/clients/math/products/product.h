/* The product of two matrices, or of batches of them, on the device. */
#ifndef TSR_PRODUCT_H
#define TSR_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "library_types.h"

/* cudaDataType */
enum { TSR_F32 = 0, TSR_F64 = 1, TSR_F16 = 2, TSR_BF16 = 14 };

/* One matrix operand. The distances are in elements, and may be negative. */
struct tsr_matrix {
  uint64_t address;
  int64_t row, column, batch; /* between rows, columns and matrices */
};

/* A scale is a value, or in device memory if its address is not 0. */
struct tsr_scale {
  uint64_t address;
  double value;
};

enum {
  TSR_ARRAYS = 1,  /* the addresses are those of arrays of `batches` addresses, in device memory */
  TSR_UNIT_B = 2,  /* B is 1, so that the product is a scaled copy of A; k is 1 */
  TSR_ALWAYS = 4,  /* A is read and multiplied also if alpha is 0 */
  TSR_BIAS = 8,   /* adds an element of `bias` to each row, after the scales */
  TSR_RELU = 16,
  TSR_GELU = 32,   /* with its approximation by tanh */
};

/* D = alpha * A * B + beta * C for `batches` matrices, with A of m × k and B of k × n elements;
 * then what the flags say. C and D may be the same. */
struct tsr_product {
  struct tsr_matrix a, b, c, d;
  struct tsr_scale alpha, beta;
  uint64_t bias;
  int64_t bias_batch;
  uint32_t m, n, k, flags;
  uint32_t first_column; /* of a grid that computes a part of the columns */
  uint32_t batches;
};

/* Types of the factors, of C, D and bias, and of the scales. Sums have double precision if the
 * scales have it, and single precision otherwise. */
struct tsr_product_types {
  int factors, result, scale;
};

/* Whether there is a kernel for the types, which are a caller's. Floats with scales in double
 * precision are not among them, but can be launched. */
bool tsr_product_is_known(struct tsr_product_types types);

/* Return a scale from host memory, or from device memory if `is_device`. */
struct tsr_scale tsr_product_scale(const void *at, int type, bool is_device);

/* Whether all matrices that are read or written have an address. */
bool tsr_product_is_complete(const struct tsr_product *product);

/* Put the product into a stream of the current context. The sizes are positive (k may be 0) and
 * the types known. Returns 0, a driver's error, or -1 if the kernel could not be loaded. */
int tsr_product_launch(const struct tsr_product *product, struct tsr_product_types types,
                       cudaStream_t stream);

#endif
