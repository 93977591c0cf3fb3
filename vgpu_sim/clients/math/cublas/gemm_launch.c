/* Loads the kernels of matrix products, once each, and launches them. */
#include <pthread.h>
#include <string.h>

#include "gemm.h"
#include "gemm_text.h"
#include "log.h"

enum { BLOCK_X = 32, BLOCK_Y = 4, MAX_GRID_Z = 65535, MAX_COLUMNS = 65535 * BLOCK_Y, KERNELS = 7 };

/* Types of factors, result and scales. */
static const int known[KERNELS][3] = {
    {TSR_F32, TSR_F32, TSR_F32},   {TSR_F64, TSR_F64, TSR_F64},   {TSR_F16, TSR_F16, TSR_F16},
    {TSR_F16, TSR_F16, TSR_F32},   {TSR_F16, TSR_F32, TSR_F32},   {TSR_BF16, TSR_BF16, TSR_F32},
    {TSR_BF16, TSR_F32, TSR_F32},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *kernels[KERNELS]; /* with lock; of libraries, which belong to no context */

extern int cuLibraryLoadData(void **library, const void *code, void *options, void **values,
                             unsigned int count, void *library_options, void **library_values,
                             unsigned int library_count);
extern int cuLibraryGetKernel(void **kernel, void *library, const char *name);
extern int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z,
                          unsigned int shared_bytes, cudaStream_t stream, void **parameters,
                          void **extra);

static int place_of(const struct tsr_gemm *gemm) {
  const int types[] = {gemm->a.type, gemm->c.type, gemm->scale};
  for (int i = 0; i < KERNELS; ++i)
    if (memcmp(types, known[i], sizeof types) == 0) return i;
  return -1;
}

bool tsr_gemm_is_known(const struct tsr_gemm *gemm) {
  return gemm->a.type == gemm->b.type && place_of(gemm) >= 0;
}

static void *load(const int *types) {
  char text[TSR_GEMM_TEXT_BYTES];
  void *library, *kernel;
  if (!tsr_gemm_write(text, sizeof text, types[0], types[1], types[2])) return NULL;
  int code = cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0);
  if (code == 0) code = cuLibraryGetKernel(&kernel, library, "gemm");
  if (code != 0) tsr_log("cuBLAS: the kernel for a matrix product could not be loaded: error %d", code);
  return code == 0 ? kernel : NULL;
}

static void *kernel_of(int place) {
  pthread_mutex_lock(&lock);
  if (!kernels[place]) kernels[place] = load(known[place]);
  void *const kernel = kernels[place];
  pthread_mutex_unlock(&lock);
  return kernel;
}

static double scale_of(const void *value, int type) {
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

/* The scales of a product: values, or addresses on the device. */
struct scales {
  uint64_t alpha_at, beta_at;
  double alpha, beta;
};

static struct scales scales_of(const struct tsr_blas *blas, const struct tsr_gemm *gemm) {
  if (blas->pointer_mode != 0)
    return (struct scales){(uint64_t)(uintptr_t)gemm->alpha, (uint64_t)(uintptr_t)gemm->beta, 0, 0};
  return (struct scales){0, 0, scale_of(gemm->alpha, gemm->scale), scale_of(gemm->beta, gemm->scale)};
}

/* Launch a product that fits into one grid. */
static int launch(void *kernel, cudaStream_t stream, struct tsr_gemm part, struct scales scales) {
  float alpha = (float)scales.alpha, beta = (float)scales.beta;
  const bool is_double = part.a.type == TSR_F64;
  void *parameters[] = {
      &part.a.address, &part.b.address, &part.c.address, &part.m, &part.n, &part.k,
      &part.a.row, &part.a.column, &part.a.batch, &part.b.row, &part.b.column, &part.b.batch,
      &part.c.column, &part.c.batch, &scales.alpha_at, &scales.beta_at,
      is_double ? (void *)&scales.alpha : &alpha, is_double ? (void *)&scales.beta : &beta,
  };
  const unsigned int rows = ((unsigned int)part.m + BLOCK_X - 1) / BLOCK_X;
  const unsigned int columns = ((unsigned int)part.n + BLOCK_Y - 1) / BLOCK_Y;
  return cuLaunchKernel(kernel, rows, columns, (unsigned int)part.batches, BLOCK_X, BLOCK_Y, 1, 0,
                        stream, parameters, NULL);
}

/* Return the address of a matrix's column, or of a batch's, as `distance` says. */
static uint64_t address_at(const struct tsr_matrix *matrix, int64_t distance, int number) {
  static const uint64_t bytes[] = {[TSR_F32] = 4, [TSR_F64] = 8, [TSR_F16] = 2, [TSR_BF16] = 2};
  return matrix->address + (uint64_t)distance * (uint64_t)number * bytes[matrix->type];
}

/* Launch the columns of so many matrices, in as many grids as they need. */
static int launch_columns(void *kernel, cudaStream_t stream, struct tsr_gemm part,
                          struct scales scales) {
  const int all = part.n;
  int code = 0;
  for (int64_t done = 0; done < all && code == 0; done += MAX_COLUMNS) {
    part.n = all - done < MAX_COLUMNS ? (int)(all - done) : MAX_COLUMNS;
    code = launch(kernel, stream, part, scales);
    part.b.address = address_at(&part.b, part.b.column, part.n);
    part.c.address = address_at(&part.c, part.c.column, part.n);
  }
  return code;
}

cublasStatus_t tsr_gemm_launch(struct tsr_blas *blas, const struct tsr_gemm *gemm) {
  const struct scales scales = scales_of(blas, gemm);
  /* With an alpha of 0 the factors are not read; of one in memory only the kernel knows. */
  const bool is_read = gemm->k > 0 && scales.alpha != 0;
  if (!gemm->c.address || (is_read && (!gemm->a.address || !gemm->b.address)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t entered = tsr_blas_enter(blas);
  if (entered != CUBLAS_STATUS_SUCCESS) return entered;
  void *const kernel = kernel_of(place_of(gemm));
  if (!kernel) return CUBLAS_STATUS_INTERNAL_ERROR;
  struct tsr_gemm part = *gemm;
  for (int64_t done = 0; done < gemm->batches; done += MAX_GRID_Z) {
    const int64_t left = gemm->batches - done;
    part.batches = left < MAX_GRID_Z ? (int)left : MAX_GRID_Z;
    if (launch_columns(kernel, blas->stream, part, scales) != 0) return CUBLAS_STATUS_EXECUTION_FAILED;
    part.a.address = address_at(&part.a, part.a.batch, part.batches);
    part.b.address = address_at(&part.b, part.b.batch, part.batches);
    part.c.address = address_at(&part.c, part.c.batch, part.batches);
  }
  return CUBLAS_STATUS_SUCCESS;
}
