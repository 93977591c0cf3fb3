/* Kernels, both as functions of a context's module and as a library's kernels. */
#ifndef TSR_FUNCTION_H
#define TSR_FUNCTION_H

#include "base/device.h"
#include "modules/module.h"
#include "base/objects.h"

/* Return the dynamic shared memory that a launch may request in addition to the function's own
 * shared memory, given that `attribute` of the device limits their sum. */
static inline int tsr_function_shared_limit(const struct tsr_function *function,
                                            CUdevice_attribute attribute) {
  const int limit = tsr_device_attribute(function->context->device, attribute, 0);
  const uint32_t own = function->record.shared_bytes;
  return own < (uint32_t)limit ? limit - (int)own : 0;
}

/* Return the function's handle for `handle` (a function or a kernel) in the context; a library
 * is loaded into the context if needed. */
CUresult tsr_function_resolve(struct tsr_context *context, uint64_t handle, uint64_t *function);

/* The same for a kernel; under the module lock. */
CUresult tsr_kernel_resolve(struct tsr_context *context, struct tsr_kernel *kernel,
                            uint64_t *function);

/* Find a function by the handle of a function or kernel, in the current context or, for a
 * kernel, in any context that has loaded it. Under the module lock. */
struct tsr_function *tsr_function_find(uint64_t handle);

/* Run `body` under the module lock, with the variables `function` and `result`; return `result`. */
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
