/* Handles of cuBLAS: streams, modes and workspaces, which computing functions read. */
#include "handle.h"

#include "api.h"
#include "objects.h"
#include "texts.h"

enum { HANDLE = 1, LAST_POINTER_MODE = 1, LAST_ATOMICS_MODE = 1 };
/* CUBLAS_DEFAULT_MATH, TENSOR_OP, PEDANTIC, TF32_TENSOR_OP, and in 13 FP32_EMULATED_BF16X9 and
 * FP64_EMULATED_FIXEDPOINT; the flag disallows reductions in reduced precision. */
enum { LAST_MATH_MODE = TSR_MAJOR == 12 ? 4 : 8, MATH_FLAG = 16 };

struct tsr_blas *tsr_blas_of(cublasHandle_t handle) { return tsr_object_find(handle, HANDLE); }

cublasStatus_t tsr_cublasCreate_v2(cublasHandle_t *handle) {
  struct tsr_current current = {0};
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  if (!tsr_current_init(&current)) return CUBLAS_STATUS_NOT_INITIALIZED;
  struct tsr_blas *made = tsr_object_new(HANDLE, sizeof *made);
  if (made) made->current = current;
  *handle = made;
  return made ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t tsr_cublasDestroy_v2(cublasHandle_t handle) {
  const struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  const struct tsr_current current = blas->current;
  if (!tsr_object_free(handle, HANDLE)) return CUBLAS_STATUS_NOT_INITIALIZED;
  tsr_current_end(&current);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  blas->stream = stream;
  blas->workspace = NULL; /* as documented: back to the default workspace */
  blas->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream) {
  const struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!stream) return CUBLAS_STATUS_INVALID_VALUE;
  *stream = blas->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
  enum { WORKSPACE_ALIGNMENT = 256 };
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if ((uintptr_t)workspace % WORKSPACE_ALIGNMENT) return CUBLAS_STATUS_INVALID_VALUE;
  blas->workspace = workspace;
  blas->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/* Set a mode that is at most `last`. */
static cublasStatus_t set(cublasHandle_t handle, size_t offset, int mode, int last) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode < 0 || mode > last) return CUBLAS_STATUS_INVALID_VALUE;
  *(int *)((char *)blas + offset) = mode;
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get(cublasHandle_t handle, size_t offset, int *mode) {
  struct tsr_blas *blas = tsr_blas_of(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = *(int *)((char *)blas + offset);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasSetPointerMode_v2(cublasHandle_t handle, int mode) {
  return set(handle, offsetof(struct tsr_blas, pointer_mode), mode, LAST_POINTER_MODE);
}

cublasStatus_t tsr_cublasGetPointerMode_v2(cublasHandle_t handle, int *mode) {
  return get(handle, offsetof(struct tsr_blas, pointer_mode), mode);
}

cublasStatus_t tsr_cublasSetAtomicsMode(cublasHandle_t handle, int mode) {
  return set(handle, offsetof(struct tsr_blas, atomics_mode), mode, LAST_ATOMICS_MODE);
}

cublasStatus_t tsr_cublasGetAtomicsMode(cublasHandle_t handle, int *mode) {
  return get(handle, offsetof(struct tsr_blas, atomics_mode), mode);
}

cublasStatus_t tsr_cublasSetMathMode(cublasHandle_t handle, int mode) {
  if (mode >= 0 && (mode & ~MATH_FLAG) > LAST_MATH_MODE) return CUBLAS_STATUS_INVALID_VALUE;
  return set(handle, offsetof(struct tsr_blas, math_mode), mode, MATH_FLAG | LAST_MATH_MODE);
}

cublasStatus_t tsr_cublasGetMathMode(cublasHandle_t handle, int *mode) {
  return get(handle, offsetof(struct tsr_blas, math_mode), mode);
}

cublasStatus_t tsr_cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  return set(handle, offsetof(struct tsr_blas, multiprocessors), count, INT32_MAX);
}

cublasStatus_t tsr_cublasGetSmCountTarget(cublasHandle_t handle, int *count) {
  return get(handle, offsetof(struct tsr_blas, multiprocessors), count);
}
