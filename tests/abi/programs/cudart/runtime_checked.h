/* Runtime API calls whose results are checked; failures are counted and printed on stderr. */
#ifndef RUNTIME_CHECKED_H
#define RUNTIME_CHECKED_H

#include <stdio.h>
#include <stdlib.h>

#include "api.h"

/* The exported names have the prototypes of the implementations. */
#define DECLARE(name) extern __typeof__(tsr_##name) name
DECLARE(__cudaRegisterFatBinary);
DECLARE(__cudaRegisterFatBinaryEnd);
DECLARE(__cudaUnregisterFatBinary);
DECLARE(__cudaRegisterFunction);
DECLARE(__cudaRegisterVar);
DECLARE(__cudaPushCallConfiguration);
DECLARE(__cudaPopCallConfiguration);
DECLARE(cudaLaunchKernel);
DECLARE(cudaLaunchKernelExC);
DECLARE(cudaGetKernel);
DECLARE(cudaGetDeviceCount);
DECLARE(cudaGetDevice);
DECLARE(cudaSetDevice);
DECLARE(cudaDeviceEnablePeerAccess);
DECLARE(cudaGetDeviceProperties);
DECLARE(cudaDeviceGetAttribute);
DECLARE(cudaDeviceSynchronize);
DECLARE(cudaDeviceReset);
DECLARE(cudaMalloc);
DECLARE(cudaFree);
DECLARE(cudaHostAlloc);
DECLARE(cudaFreeHost);
DECLARE(cudaMemcpy);
DECLARE(cudaMemcpyAsync);
DECLARE(cudaMemset);
DECLARE(cudaMemsetAsync);
DECLARE(cudaMemGetInfo);
DECLARE(cudaMemcpyToSymbol);
DECLARE(cudaMemcpyFromSymbol);
DECLARE(cudaGetSymbolAddress);
DECLARE(cudaGetSymbolSize);
DECLARE(cudaPointerGetAttributes);
DECLARE(cudaStreamCreateWithFlags);
DECLARE(cudaStreamSynchronize);
DECLARE(cudaStreamDestroy);
DECLARE(cudaStreamQuery);
DECLARE(cudaEventCreate);
DECLARE(cudaEventRecord);
DECLARE(cudaEventSynchronize);
DECLARE(cudaEventElapsedTime);
DECLARE(cudaEventDestroy);
DECLARE(cudaFuncGetAttributes);
DECLARE(cudaFuncSetAttribute);
DECLARE(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
DECLARE(cudaGetLastError);
DECLARE(cudaPeekAtLastError);
DECLARE(cudaGetErrorName);
DECLARE(cudaGetErrorString);
DECLARE(cudaDriverGetVersion);
DECLARE(cudaRuntimeGetVersion);
DECLARE(cudaGetDriverEntryPointByVersion);
DECLARE(cudaGetExportTable);
DECLARE(cudaMallocAsync);
DECLARE(cudaFreeAsync);
DECLARE(cudaMallocManaged);
DECLARE(cudaMallocPitch);
DECLARE(cudaMalloc3D);
DECLARE(cudaMemcpy2D);
DECLARE(cudaMemcpy3D);
DECLARE(cudaMemset2D);
DECLARE(cudaMemset3D);
DECLARE(cudaMemcpy2DAsync);
DECLARE(cudaDeviceGetDefaultMemPool);
DECLARE(cudaMemPoolGetAttribute);
DECLARE(cudaMemPoolTrimTo);
DECLARE(cudaLaunchHostFunc);
DECLARE(cudaStreamAddCallback);
DECLARE(cudaStreamWaitEvent);
DECLARE(cudaStreamGetPriority);
DECLARE(cudaGraphCreate);
DECLARE(cudaGraphAddKernelNode);
DECLARE(cudaGraphKernelNodeGetParams);
DECLARE(cudaGraphExecKernelNodeSetParams);
DECLARE(cudaGraphAddMemcpyNode1D);
DECLARE(cudaGraphAddMemcpyNodeToSymbol);
DECLARE(cudaGraphInstantiateWithFlags);
DECLARE(cudaGraphLaunch);
DECLARE(cudaGraphExecDestroy);
DECLARE(cudaGraphDestroy);
DECLARE(cudaStreamBeginCapture);
DECLARE(cudaStreamEndCapture);
DECLARE(cudaGraphGetNodes);
DECLARE(cudaMemcpy_ptds);
DECLARE(cudaLaunchKernel_ptsz);
DECLARE(cudaStreamSynchronize_ptsz);
DECLARE(cudaMemcpyAsync_ptsz);
DECLARE(cudaGraphAddNode);
DECLARE(cudaMemPoolCreate);

static _Atomic int failures;

#define GIVES(expected, call)                                                       \
  do {                                                                              \
    const cudaError_t result = (call);                                              \
    if (result != (expected)) {                                                     \
      fprintf(stderr, "%s:%d: %d (%s)\n", #call, __LINE__, result, cudaGetErrorName(result)); \
      failures++;                                                                   \
    }                                                                               \
  } while (0)
#define OK(call) GIVES(cudaSuccess, call)
#define HOLDS(condition)                                       \
  do {                                                         \
    if (!(condition)) {                                        \
      fprintf(stderr, "%s:%d: false\n", #condition, __LINE__); \
      failures++;                                              \
    }                                                          \
  } while (0)

/* What compilers generate for an object with device code. */
struct wrapper {
  unsigned magic, version;
  const void *data;
  void *more;
};

static inline const void *read_image(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 1 << 16);
  if (!file || !text || fread(text, 1, (1 << 16) - 1, file) == 0) exit(2);
  fclose(file);
  return text;
}

#endif
