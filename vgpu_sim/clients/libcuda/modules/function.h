/* Kernels, as functions of a context's module and as a library's kernels. */
#ifndef TSR_FUNCTION_H
#define TSR_FUNCTION_H

#include "base/device.h"
#include "modules/module.h"
#include "base/objects.h"

/* What a launch may ask for beside the function's own shared memory, where `attribute` of the
 * device is the limit of both. */
static inline int tsr_function_shared_limit(const struct tsr_function *function,
                                            CUdevice_attribute attribute) {
  const int limit = tsr_device_attribute(function->context->device, attribute, 0);
  const uint32_t own = function->record.shared_bytes;
  return own < (uint32_t)limit ? limit - (int)own : 0;
}

/* The handle of the function that `handle` (a function or a kernel) means in the context; a
 * library is loaded into the context where need be. */
CUresult tsr_function_resolve(struct tsr_context *context, uint64_t handle, uint64_t *function);

/* The same for a kernel; under the module lock. */
CUresult tsr_kernel_resolve(struct tsr_context *context, struct tsr_kernel *kernel,
                            uint64_t *function);

/* A function by the handle of a function or kernel, in the current context or, for a kernel, in
 * any that has it. Under the module lock. */
struct tsr_function *tsr_function_find(uint64_t handle);

/* Runs `body` with `function` and `result`, which it returns, under the module lock. */
#define TSR_WITH_FUNCTION(handle, body)                                   \
  pthread_mutex_lock(&tsr_module_lock);                               \
  struct tsr_function *const function = tsr_function_find((uint64_t)(uintptr_t)(handle)); \
  CUresult result = function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; \
  if (function) {                                                     \
    body;                                                             \
  }                                                                   \
  pthread_mutex_unlock(&tsr_module_lock);                             \
  return result

#endif
