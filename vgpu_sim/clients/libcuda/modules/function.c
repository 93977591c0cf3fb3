/* Attributes of functions and kernels. */
#include "modules/function.h"

#include "api.h"
#include "contexts/context.h"
#include "base/device.h"
#include "base/refuse.h"
#include "modules/cluster.h"
#include "modules/module.h"

CUresult tsr_function_resolve(struct tsr_context *context, uint64_t handle, uint64_t *function) {
  const uint64_t own = tsr_object_handle(TSR_CONTEXT, context);
  const struct tsr_function *found = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  if (found) {
    *function = handle;
    return found->context_handle == own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  struct tsr_kernel *kernel = TSR_FIND(tsr_kernel, TSR_KERNEL, handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  *function = atomic_load_explicit(&kernel->functions[context->index], memory_order_relaxed);
  found = TSR_FIND(tsr_function, TSR_FUNCTION, *function);
  if (__builtin_expect(found && found->context_handle == own, 1)) return CUDA_SUCCESS;
  pthread_mutex_lock(&tsr_module_lock);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (TSR_FIND(tsr_kernel, TSR_KERNEL, handle) == kernel)
    result = tsr_kernel_resolve(context, kernel, function);
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

struct tsr_function *tsr_function_find(uint64_t handle) {
  struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  if (function) return function;
  struct tsr_kernel *kernel = TSR_FIND(tsr_kernel, TSR_KERNEL, handle);
  if (!kernel) return NULL;
  CUresult why;
  struct tsr_context *context = tsr_context_current_any(&why);
  uint64_t found;
  if (context && tsr_kernel_resolve(context, kernel, &found) == CUDA_SUCCESS)
    return TSR_FIND(tsr_function, TSR_FUNCTION, found);
  for (uint32_t i = 0; i < TESSERA_MAX_CONTEXTS && !function; i++)
    function = TSR_FIND(tsr_function, TSR_FUNCTION, atomic_load(&kernel->functions[i]));
  return function;
}

static CUresult attribute_of(const struct tsr_function *function, CUfunction_attribute attribute,
                             int *value) {
  const tessera_function_record *record = &function->record;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = (int)record->max_threads;
      if (*value == 0)
        *value = tsr_device_attribute(function->context->device,
                                      CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = (int)record->shared_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = (int)record->const_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = (int)record->local_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = (int)record->registers;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = (int)record->ptx_version;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = (int)record->binary_version;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = atomic_load(&function->dynamic_shared_limit);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1; /* the driver decides */
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return tsr_cluster_get_attribute(function, attribute, value);
  }
}

static CUresult set_attribute(struct tsr_function *function, CUfunction_attribute attribute,
                              int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int limit = tsr_function_shared_limit(
          function, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
      if (value < 0 || value > limit) return CUDA_ERROR_INVALID_VALUE;
      atomic_store(&function->dynamic_shared_limit, value);
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: /* only a hint */
      return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return tsr_cluster_set_attribute(function, attribute, value);
  }
}

CUresult tsr_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
  if (!pi) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(hfunc, result = attribute_of(function, attrib, pi));
}

CUresult tsr_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
                                  CUdevice dev) {
  if (!tsr_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!pi) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(kernel, result = attribute_of(function, attrib, pi));
}

CUresult tsr_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  TSR_WITH_FUNCTION(hfunc, result = set_attribute(function, attrib, value));
}

CUresult tsr_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                  CUdevice dev) {
  if (!tsr_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  TSR_WITH_FUNCTION(kernel, result = set_attribute(function, attrib, val));
}

static CUresult valid_cache(CUfunc_cache config) {
  return (int)config >= 0 && config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  TSR_WITH_FUNCTION(hfunc, result = valid_cache(config)); /* only a hint */
}

CUresult tsr_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  if (!tsr_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  TSR_WITH_FUNCTION(kernel, result = valid_cache(config));
}

/* Bank sizes of shared memory do not change results. */
CUresult tsr_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  TSR_WITH_FUNCTION(hfunc, result = (int)config >= 0 && (int)config <= 2
                                        ? CUDA_SUCCESS
                                        : CUDA_ERROR_INVALID_VALUE);
}

static CUresult parameter(const struct tsr_function *function, size_t index, size_t *offset,
                          size_t *size) {
  if (index >= function->record.parameter_count) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->parameters[index].offset;
  if (size) *size = function->parameters[index].size;
  return CUDA_SUCCESS;
}

CUresult tsr_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                                size_t *paramSize) {
  if (!paramOffset) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(func, result = parameter(function, paramIndex, paramOffset, paramSize));
}

/* Kernels belong to no context, but NVIDIA's driver requires a current one here, as cuda.core's
 * suite shows. */
CUresult tsr_cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                                  size_t *paramSize) {
  if (!paramOffset) return CUDA_ERROR_INVALID_VALUE;
  CUresult why;
  if (!tsr_context_current_any(&why)) return why;
  TSR_WITH_FUNCTION(kernel, result = parameter(function, paramIndex, paramOffset, paramSize));
}

CUresult tsr_cuFuncGetParamCount(CUfunction func, size_t *paramCount) {
  if (!paramCount) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(func, *paramCount = function->record.parameter_count);
}

CUresult tsr_cuKernelGetParamCount(CUkernel kernel, size_t *paramCount) {
  if (!paramCount) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(kernel, *paramCount = function->record.parameter_count);
}

CUresult tsr_cuFuncGetName(const char **name, CUfunction hfunc) {
  if (!name || !hfunc) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(hfunc, *name = function->name);
}

/* The library's own copy: it outlives the contexts that loaded it. */
CUresult tsr_cuKernelGetName(const char **name, CUkernel hfunc) {
  const struct tsr_kernel *kernel = TSR_FIND(tsr_kernel, TSR_KERNEL, hfunc);
  if (!name || !hfunc) return CUDA_ERROR_INVALID_VALUE;
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->name;
  return CUDA_SUCCESS;
}

CUresult tsr_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
  if (!hmod) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(hfunc, {
    *hmod = (CUmodule)(uintptr_t)tsr_object_handle(TSR_MODULE, function->module);
  });
}

CUresult tsr_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction hfunc) {
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(hfunc, *state = CU_FUNCTION_LOADING_STATE_LOADED);
}

CUresult tsr_cuFuncLoad(CUfunction hfunc) {
  TSR_WITH_FUNCTION(hfunc, ); /* looking a function up has loaded it */
}

CUresult tsr_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
  TSR_CURRENT(context);
  if (!pFunc) return CUDA_ERROR_INVALID_VALUE;
  if (!TSR_FIND(tsr_kernel, TSR_KERNEL, kernel)) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t function;
  const CUresult result = tsr_function_resolve(context, (uint64_t)(uintptr_t)kernel, &function);
  if (result == CUDA_SUCCESS) *pFunc = (CUfunction)(uintptr_t)function;
  return result;
}

CUresult tsr_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
  if (!pLib) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_kernel *found = TSR_FIND(tsr_kernel, TSR_KERNEL, kernel);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  *pLib = (CUlibrary)(uintptr_t)tsr_object_handle(TSR_LIBRARY, found->library);
  return CUDA_SUCCESS;
}
