/* Loads the kernels of matrix products, once each, and launches them. */
#include "product.h"

#include <pthread.h>
#include <string.h>

#include "kernel.h"
#include "product_text.h"

enum { BLOCK_X = 32, BLOCK_Y = 4, MAX_GRID_Z = 65535, MAX_COLUMNS = 65535 * BLOCK_Y, PUBLIC = 7,
       KERNELS = 8 };

/* After those that callers of the libraries may name, the types of the dot product of floats. */
static const struct tsr_product_types known[KERNELS] = {
    {TSR_F32, TSR_F32, TSR_F32},   {TSR_F64, TSR_F64, TSR_F64},   {TSR_F16, TSR_F16, TSR_F16},
    {TSR_F16, TSR_F16, TSR_F32},   {TSR_F16, TSR_F32, TSR_F32},   {TSR_BF16, TSR_BF16, TSR_F32},
    {TSR_BF16, TSR_F32, TSR_F32},  {TSR_F32, TSR_F32, TSR_F64},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *kernels[KERNELS]; /* with lock; of libraries, which belong to no context */

extern int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z,
                          unsigned int shared_bytes, cudaStream_t stream, void **parameters,
                          void **extra);

static int place_of(struct tsr_product_types types) {
  for (int i = 0; i < KERNELS; ++i)
    if (memcmp(&types, &known[i], sizeof types) == 0) return i;
  return -1;
}

bool tsr_product_is_known(struct tsr_product_types types) {
  const int place = place_of(types);
  return place >= 0 && place < PUBLIC;
}

static void *load(struct tsr_product_types types) {
  char text[TSR_PRODUCT_TEXT_BYTES];
  return tsr_product_write(text, sizeof text, types) ? tsr_kernel_load(text, "product") : NULL;
}

static void *kernel_of(int place) {
  pthread_mutex_lock(&lock);
  if (!kernels[place]) kernels[place] = load(known[place]);
  void *const kernel = kernels[place];
  pthread_mutex_unlock(&lock);
  return kernel;
}

static double value_of(const void *value, int type) {
  if (type == TSR_F64) return *(const double *)value;
  if (type == TSR_F32) return *(const float *)value;
  uint16_t bits;
  memcpy(&bits, value, sizeof bits);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? __builtin_nan("") : sign * __builtin_inf();
  return sign * (exponent ? (1024 + fraction) * __builtin_ldexp(1, exponent - 25)
                          : fraction * __builtin_ldexp(1, -24));
}

struct tsr_scale tsr_product_scale(const void *at, int type, bool is_device) {
  if (is_device) return (struct tsr_scale){(uint64_t)(uintptr_t)at, 0};
  return (struct tsr_scale){0, value_of(at, type)};
}

static bool is_zero(struct tsr_scale scale) { return !scale.address && scale.value == 0; }

/* With an alpha of 0 the factors are not read, and with a beta of 0 not C; of a scale in memory
 * only the kernel knows. */
bool tsr_product_is_complete(const struct tsr_product *product) {
  const bool is_read = product->k > 0 && (!is_zero(product->alpha) || product->flags & TSR_ALWAYS);
  if (!product->d.address) return false;
  if (is_read && !product->a.address) return false;
  if (is_read && !product->b.address && !(product->flags & TSR_UNIT_B)) return false;
  return product->c.address || is_zero(product->beta);
}

/* Launch a product that fits into one grid. */
static int launch(void *kernel, cudaStream_t stream, struct tsr_product *part, uint32_t columns) {
  void *parameters[] = {part};
  return cuLaunchKernel(kernel, (part->m - 1) / BLOCK_X + 1, (columns - 1) / BLOCK_Y + 1, part->batches,
                        BLOCK_X, BLOCK_Y, 1, 0, stream, parameters, NULL);
}

/* Launch the columns of so many matrices, in as many grids as they need. */
static int launch_columns(void *kernel, cudaStream_t stream, struct tsr_product part) {
  int code = 0;
  for (uint64_t done = 0; done < part.n && code == 0; done += MAX_COLUMNS) {
    const uint64_t left = part.n - done;
    part.first_column = (uint32_t)done;
    code = launch(kernel, stream, &part, left < MAX_COLUMNS ? (uint32_t)left : MAX_COLUMNS);
  }
  return code;
}

/* Advance an operand by so many matrices: their addresses, or their places in an array. */
static void advance(struct tsr_matrix *matrix, uint32_t batches, int type, bool is_array) {
  static const uint64_t sizes[] = {[TSR_F32] = 4, [TSR_F64] = 8, [TSR_F16] = 2, [TSR_BF16] = 2};
  if (!matrix->address) return;
  matrix->address += batches * (is_array ? sizeof(uint64_t) : (uint64_t)matrix->batch * sizes[type]);
}

int tsr_product_launch(const struct tsr_product *product, struct tsr_product_types types,
                       cudaStream_t stream) {
  void *const kernel = kernel_of(place_of(types));
  if (!kernel) return -1;
  const bool is_array = product->flags & TSR_ARRAYS;
  struct tsr_product part = *product;
  int code = 0;
  for (uint64_t done = 0; done < product->batches && code == 0; done += MAX_GRID_Z) {
    const uint64_t left = product->batches - done;
    part.batches = left < MAX_GRID_Z ? (uint32_t)left : MAX_GRID_Z;
    code = launch_columns(kernel, stream, part);
    advance(&part.a, part.batches, types.factors, is_array);
    advance(&part.b, part.batches, types.factors, is_array);
    advance(&part.c, part.batches, types.result, is_array);
    advance(&part.d, part.batches, types.result, is_array);
    struct tsr_matrix bias = {.address = part.bias, .batch = part.bias_batch};
    advance(&bias, part.batches, types.result, false);
    part.bias = bias.address;
  }
  return code;
}
