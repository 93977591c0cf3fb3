/* Versions, and addresses of driver functions. */
#include <stdbool.h>

#include "api.h"
#include "driver.h"

/* The version whose structures and numbers this library has. */
#if TSR_CUDART >= 13
enum { RUNTIME_VERSION = 13050 };
#else
enum { RUNTIME_VERSION = 12090 };
#endif
enum { DEFAULT = 0, LEGACY_STREAM = 1, PER_THREAD_STREAM = 2 };
enum { NOT_FOUND = 1 }; /* cudaDriverEntryPointSymbolNotFound */

cudaError_t tsr_cudaRuntimeGetVersion(int *runtimeVersion) {
  if (!runtimeVersion) return cudaErrorInvalidValue;
  *runtimeVersion = RUNTIME_VERSION;
  return cudaSuccess;
}

cudaError_t tsr_cudaDriverGetVersion(int *driverVersion) {
  return driverVersion ? cuDriverGetVersion(driverVersion) : cudaErrorInvalidValue;
}

/* A function that does not exist is no error if the caller wants its status. */
static cudaError_t look_up(const char *symbol, void **function, unsigned int version,
                           unsigned long long flags, int *status, bool per_thread) {
  if (!symbol || !function) return cudaErrorInvalidValue;
  if (flags == DEFAULT && per_thread) flags = PER_THREAD_STREAM;
  int found = NOT_FOUND;
  const int result = cuGetProcAddress_v2(symbol, function, (int)version, flags, &found);
  if (result != cudaSuccess && result != CUDA_ERROR_NOT_FOUND) return result;
  if (!status) return *function ? cudaSuccess : cudaErrorSymbolNotFound;
  *status = found;
  return cudaSuccess;
}

cudaError_t tsr_cudaGetDriverEntryPoint(const char *symbol, void **funcPtr,
                                        unsigned long long flags, int *driverStatus) {
  return look_up(symbol, funcPtr, RUNTIME_VERSION, flags, driverStatus, false);
}

cudaError_t tsr_cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr,
                                             unsigned long long flags, int *driverStatus) {
  return look_up(symbol, funcPtr, RUNTIME_VERSION, flags, driverStatus, true);
}

cudaError_t tsr_cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                                 unsigned int cudaVersion, unsigned long long flags,
                                                 int *driverStatus) {
  return look_up(symbol, funcPtr, cudaVersion, flags, driverStatus, false);
}

cudaError_t tsr_cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr,
                                                      unsigned int cudaVersion,
                                                      unsigned long long flags, int *driverStatus) {
  return look_up(symbol, funcPtr, cudaVersion, flags, driverStatus, true);
}

/* Private tables of NVIDIA's own libraries, which do not exist here. */
cudaError_t tsr_cudaGetExportTable(const void **ppExportTable, const struct CUuuid *pExportTableId) {
  if (!ppExportTable || !pExportTableId) return cudaErrorInvalidValue;
  *ppExportTable = NULL;
  return cudaErrorSymbolNotFound;
}
