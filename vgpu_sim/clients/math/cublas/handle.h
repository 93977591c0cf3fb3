/* The state of a cuBLAS handle. */
#ifndef TSR_CUBLAS_HANDLE_H
#define TSR_CUBLAS_HANDLE_H

#include "cublas_types.h"

struct tsr_blas {
  cudaStream_t stream;
  void *workspace;
  size_t workspace_bytes;
  int pointer_mode, atomics_mode, math_mode, multiprocessors;
  int device;     /* of the context in which the handle was made */
  void *retained; /* the device's primary context, once a thread without a context has computed */
};

/* Return the state of a handle, or NULL if it is no handle. */
struct tsr_blas *tsr_blas_of(cublasHandle_t handle);

/* Give a thread that has no context the primary context of the handle's device, as NVIDIA's
 * library does through the runtime. */
cublasStatus_t tsr_blas_enter(struct tsr_blas *blas);

#endif
