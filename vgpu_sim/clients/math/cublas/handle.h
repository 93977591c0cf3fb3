/* The state of a cuBLAS handle. */
#ifndef TSR_CUBLAS_HANDLE_H
#define TSR_CUBLAS_HANDLE_H

#include "cublas_types.h"

struct tsr_blas {
  cudaStream_t stream;
  void *workspace;
  size_t workspace_bytes;
  int pointer_mode, atomics_mode, math_mode, multiprocessors;
};

/* Return the state of a handle, or NULL if it is no handle. */
struct tsr_blas *tsr_blas_of(cublasHandle_t handle);

#endif
