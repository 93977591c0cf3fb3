/* Kernels of libraries, which programs may look up before there is a context. */
#include "api.h"
#include "contexts/context.h"
#include "modules/library.h"

/* Open the first device's primary context for this call, in which the library is loaded and whose
 * kernels are then known by their names. Kernels outlive the contexts that loaded them. */
static bool begin(CUcontext *context) {
  if (tsr_cuDevicePrimaryCtxRetain(context, 0) != CUDA_SUCCESS) return false;
  if (tsr_stack_push((uint64_t)(uintptr_t)*context) == CUDA_SUCCESS) return true;
  tsr_cuDevicePrimaryCtxRelease_v2(0);
  return false;
}

static void end(CUcontext context) {
  tsr_stack_drop((uint64_t)(uintptr_t)context);
  tsr_cuDevicePrimaryCtxRelease_v2(0);
}

/* Make a call; if the thread has no context, and no other has loaded the library, repeat it with
 * one. */
#define WITH_CONTEXT(call)                                   \
  CUresult result = (call);                                  \
  CUcontext context;                                         \
  if (result == CUDA_ERROR_INVALID_CONTEXT && begin(&context)) { \
    result = (call);                                         \
    end(context);                                            \
  }                                                          \
  return result

CUresult tsr_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
  if (!pKernel || !name) return CUDA_ERROR_INVALID_VALUE;
  WITH_CONTEXT(tsr_library_kernel(pKernel, library, name));
}

CUresult tsr_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  WITH_CONTEXT(tsr_library_count(count, lib));
}

CUresult tsr_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels,
                                       CUlibrary lib) {
  if (!kernels) return CUDA_ERROR_INVALID_VALUE;
  WITH_CONTEXT(tsr_library_enumerate(kernels, numKernels, lib));
}
