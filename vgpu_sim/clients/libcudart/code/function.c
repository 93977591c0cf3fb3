/* Attributes of kernels, and handles for them. */
#include <string.h>

#include "api.h"
#include "code/registry.h"

/* The driver's numbers of attributes; the runtime has no names for the first eight. */
enum {
  MAX_THREADS = 0,
  SHARED_BYTES = 1,
  CONST_BYTES = 2,
  LOCAL_BYTES = 3,
  REGISTERS = 4,
  PTX_VERSION = 5,
  BINARY_VERSION = 6,
  CACHE_MODE_CA = 7,
  MAX_DYNAMIC_SHARED_BYTES = 8,
  SHARED_CARVEOUT = 9,
  CLUSTER_MUST_BE_SET = 10,
  CLUSTER_WIDTH = 11,
  CLUSTER_HEIGHT = 12,
  CLUSTER_DEPTH = 13,
  NON_PORTABLE_CLUSTER = 14,
  CLUSTER_POLICY = 15,
};

static const struct {
  int attribute;
  size_t offset;
  size_t bytes;
} fields[] = {
#define FIELD(attribute, name)                                   \
  {attribute, offsetof(struct cudaFuncAttributes, name),         \
   sizeof(((struct cudaFuncAttributes *)NULL)->name)}
    FIELD(MAX_THREADS, maxThreadsPerBlock),
    FIELD(SHARED_BYTES, sharedSizeBytes),
    FIELD(CONST_BYTES, constSizeBytes),
    FIELD(LOCAL_BYTES, localSizeBytes),
    FIELD(REGISTERS, numRegs),
    FIELD(PTX_VERSION, ptxVersion),
    FIELD(BINARY_VERSION, binaryVersion),
    FIELD(CACHE_MODE_CA, cacheModeCA),
    FIELD(MAX_DYNAMIC_SHARED_BYTES, maxDynamicSharedSizeBytes),
    FIELD(SHARED_CARVEOUT, preferredShmemCarveout),
    FIELD(CLUSTER_MUST_BE_SET, clusterDimMustBeSet),
    FIELD(CLUSTER_WIDTH, requiredClusterWidth),
    FIELD(CLUSTER_HEIGHT, requiredClusterHeight),
    FIELD(CLUSTER_DEPTH, requiredClusterDepth),
    FIELD(NON_PORTABLE_CLUSTER, nonPortableClusterSizeAllowed),
    FIELD(CLUSTER_POLICY, clusterSchedulingPolicyPreference),
#undef FIELD
};

cudaError_t tsr_cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func) {
  cudaFunction_t function;
  if (!attr) return cudaErrorInvalidValue;
  cudaError_t result = tsr_function_of(func, &function);
  if (result != cudaSuccess) return result;
  struct cudaFuncAttributes read = {0};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    int value;
    result = cuFuncGetAttribute(&value, fields[i].attribute, function);
    if (result != cudaSuccess) return result;
    const size_t wide = (size_t)value;
    memcpy((char *)&read + fields[i].offset,
           fields[i].bytes == sizeof value ? (const void *)&value : (const void *)&wide,
           fields[i].bytes);
  }
  *attr = read;
  return cudaSuccess;
}

cudaError_t tsr_cudaFuncSetAttribute(const void *func, int attr, int value) {
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(func, &function);
  return result == cudaSuccess ? cuFuncSetAttribute(function, attr, value) : result;
}

cudaError_t tsr_cudaFuncSetCacheConfig(const void *func, int cacheConfig) {
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(func, &function);
  return result == cudaSuccess ? cuFuncSetCacheConfig(function, cacheConfig) : result;
}

cudaError_t tsr_cudaFuncSetSharedMemConfig(const void *func, int config) {
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(func, &function);
  return result == cudaSuccess ? cuFuncSetSharedMemConfig(function, config) : result;
}

cudaError_t tsr_cudaFuncGetName(const char **name, const void *func) {
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(func, &function);
  return result == cudaSuccess ? cuFuncGetName(name, function) : result;
}

cudaError_t tsr_cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
                                     size_t *paramSize) {
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(func, &function);
  return result == cudaSuccess ? cuFuncGetParamInfo(function, paramIndex, paramOffset, paramSize)
                               : result;
}

#if TSR_CUDART >= 13
cudaError_t tsr_cudaFuncGetParamCount(const void *func, size_t *paramCount) {
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(func, &function);
  return result == cudaSuccess ? cuFuncGetParamCount(function, paramCount) : result;
}
#endif

cudaError_t tsr_cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr) {
  return functionPtr ? tsr_function_of(symbolPtr, functionPtr) : cudaErrorInvalidValue;
}

cudaError_t tsr_cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr) {
  return kernelPtr ? tsr_kernel_of(entryFuncAddr, kernelPtr) : cudaErrorInvalidValue;
}

/* Compilers generate calls of this one, with the result passed to __cudaLaunchKernel. The kernel's
 * host address serves as its handle, because nothing may be loaded yet. */
cudaError_t tsr___cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr) {
  if (!kernelPtr || !entryFuncAddr) return cudaErrorInvalidValue;
  *kernelPtr = (cudaKernel_t)(uintptr_t)entryFuncAddr;
  return cudaSuccess;
}
