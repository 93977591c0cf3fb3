/* Driver API calls whose results are checked; failures are counted and printed on stderr. */
#ifndef CHECKED_H
#define CHECKED_H

#include <stdio.h>

#include "libcuda/api.h"

/* The exported names have the prototypes of the implementations. */
#define DECLARE(name, ...) CUresult name(__VA_ARGS__)
DECLARE(cuInit, unsigned int);
DECLARE(cuCtxCreate_v2, CUcontext *, unsigned int, CUdevice);
DECLARE(cuCtxDestroy_v2, CUcontext);
DECLARE(cuCtxSetCurrent, CUcontext);
DECLARE(cuCtxPushCurrent_v2, CUcontext);
DECLARE(cuCtxPopCurrent_v2, CUcontext *);
DECLARE(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice);
DECLARE(cuDevicePrimaryCtxRelease_v2, CUdevice);
DECLARE(cuCtxSynchronize, void);
DECLARE(cuModuleLoad, CUmodule *, const char *);
DECLARE(cuModuleUnload, CUmodule);
DECLARE(cuModuleGetFunction, CUfunction *, CUmodule, const char *);
DECLARE(cuMemAlloc_v2, CUdeviceptr *, size_t);
DECLARE(cuMemFree_v2, CUdeviceptr);
DECLARE(cuMemHostAlloc, void **, size_t, unsigned int);
DECLARE(cuMemFreeHost, void *);
DECLARE(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t);
DECLARE(cuMemcpyAsync, CUdeviceptr, CUdeviceptr, size_t, CUstream);
DECLARE(cuMemsetD8_v2, CUdeviceptr, unsigned char, size_t);
DECLARE(cuMemsetD32Async, CUdeviceptr, unsigned int, size_t, CUstream);
DECLARE(cuStreamCreate, CUstream *, unsigned int);
DECLARE(cuStreamDestroy_v2, CUstream);
DECLARE(cuStreamSynchronize, CUstream);
DECLARE(cuStreamWaitEvent, CUstream, CUevent, unsigned int);
DECLARE(cuEventCreate, CUevent *, unsigned int);
DECLARE(cuEventRecord, CUevent, CUstream);
DECLARE(cuEventSynchronize, CUevent);
DECLARE(cuEventDestroy_v2, CUevent);
DECLARE(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
        unsigned, CUstream, void **, void **);

static _Atomic int failures;

#define OK(call)                                                         \
  do {                                                                   \
    const CUresult result = (call);                                      \
    if (result != CUDA_SUCCESS) {                                        \
      fprintf(stderr, "%s:%d: %d\n", #call, __LINE__, (int)result);      \
      failures++;                                                        \
    }                                                                    \
  } while (0)
#define FAILS(expected, call)                                            \
  do {                                                                   \
    const CUresult result = (call);                                      \
    if (result != (expected)) {                                          \
      fprintf(stderr, "%s:%d: %d\n", #call, __LINE__, (int)result);      \
      failures++;                                                        \
    }                                                                    \
  } while (0)

#endif
