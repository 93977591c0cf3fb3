/* Loads the kernels of matrix products, once each, and launches them. */
#include <pthread.h>
#include <string.h>

#include "gemm.h"
#include "gemm_text.h"
#include "log.h"

enum { BLOCK_X = 32, BLOCK_Y = 4, MAX_GRID_Z = 65535, MAX_GRID_Y = 65535, KERNELS = 7 };

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

cublasStatus_t tsr_gemm_launch(struct tsr_blas *blas, const struct tsr_gemm *gemm) {
  const unsigned int columns = ((unsigned int)gemm->n + BLOCK_Y - 1) / BLOCK_Y;
  if (columns > MAX_GRID_Y) return CUBLAS_STATUS_NOT_SUPPORTED;
  const cublasStatus_t entered = tsr_blas_enter(blas);
  if (entered != CUBLAS_STATUS_SUCCESS) return entered;
  const bool in_memory = blas->pointer_mode != 0;
  const bool is_double = gemm->a.type == TSR_F64;
  uint64_t alpha_at = in_memory ? (uint64_t)(uintptr_t)gemm->alpha : 0;
  uint64_t beta_at = in_memory ? (uint64_t)(uintptr_t)gemm->beta : 0;
  double alpha = in_memory ? 0 : scale_of(gemm->alpha, gemm->scale);
  double beta = in_memory ? 0 : scale_of(gemm->beta, gemm->scale);
  /* With an alpha of 0 the factors are not read; of one in memory only the kernel knows. */
  const bool is_read = gemm->k > 0 && alpha != 0;
  if (!gemm->c.address || (is_read && (!gemm->a.address || !gemm->b.address)))
    return CUBLAS_STATUS_INVALID_VALUE;
  void *const kernel = kernel_of(place_of(gemm));
  if (!kernel) return CUBLAS_STATUS_INTERNAL_ERROR;
  float alpha_single = (float)alpha, beta_single = (float)beta;
  struct tsr_matrix a = gemm->a, b = gemm->b, c = gemm->c;
  const uint64_t bytes[] = {[TSR_F32] = 4, [TSR_F64] = 8, [TSR_F16] = 2, [TSR_BF16] = 2};
  int m = gemm->m, n = gemm->n, k = gemm->k;
  for (int done = 0; done < gemm->batches; done += MAX_GRID_Z) {
    const int left = gemm->batches - done;
    void *parameters[] = {
        &a.address, &b.address, &c.address, &m,        &n,       &k,        &a.row,   &a.column,
        &a.batch,   &b.row,     &b.column,  &b.batch,  &c.column, &c.batch, &alpha_at, &beta_at,
        is_double ? (void *)&alpha : &alpha_single, is_double ? (void *)&beta : &beta_single,
    };
    const int code = cuLaunchKernel(kernel, ((unsigned int)m + BLOCK_X - 1) / BLOCK_X, columns,
                                    (unsigned int)(left < MAX_GRID_Z ? left : MAX_GRID_Z), BLOCK_X,
                                    BLOCK_Y, 1, 0, blas->stream, parameters, NULL);
    if (code != 0) return CUBLAS_STATUS_EXECUTION_FAILED;
    a.address += (uint64_t)a.batch * MAX_GRID_Z * bytes[a.type];
    b.address += (uint64_t)b.batch * MAX_GRID_Z * bytes[b.type];
    c.address += (uint64_t)c.batch * MAX_GRID_Z * bytes[c.type];
  }
  return CUBLAS_STATUS_SUCCESS;
}
