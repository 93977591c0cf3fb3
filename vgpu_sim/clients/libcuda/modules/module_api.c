/* cuModule...: modules that a program loads into its current context. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/environment.h"
#include "contexts/context.h"
#include "exchange/unsafe.h"
#include "log.h"
#include "modules/module.h"
#include "modules/prelinked.h"
#include "exchange/wait.h"

static CUresult load(CUmodule *out, const void *image, size_t room,
                     const struct tsr_log_buffers *logs) {
  TSR_CURRENT(context);
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes;
  void *gathered;
  CUresult result = tsr_prelinked_gather(image, room, logs, &gathered, &bytes);
  if (gathered) image = gathered;
  if (result == CUDA_SUCCESS && !gathered) result = tsr_image_check(&image, room, &bytes, logs);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_module *module;
  /* without the lock, because this takes long */
  result = tsr_prelinked_fetch(context, image, bytes, logs, &module);
  free(gathered);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&tsr_module_lock);
  result = tsr_module_adopt(module);
  if (result == CUDA_SUCCESS) *out = (CUmodule)(uintptr_t)tsr_object_handle(TSR_MODULE, module);
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

CUresult tsr_cuModuleLoadData(CUmodule *module, const void *image) {
  const struct tsr_log_buffers no_logs = {0};
  return load(module, image, TSR_IMAGE_IN_MEMORY, &no_logs);
}

CUresult tsr_cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  return tsr_cuModuleLoadData(module, image);
}

CUresult tsr_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                CUjit_option *options, void **optionValues) {
  if (numOptions && (!options || !optionValues)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_log_buffers logs;
  tsr_log_buffers_read(&logs, numOptions, options, optionValues);
  return load(module, image, TSR_IMAGE_IN_MEMORY, &logs);
}

CUresult tsr_cuModuleLoad(CUmodule *module, const char *fname) {
  if (!module || !fname) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes;
  char *image = tsr_image_read(fname, &bytes);
  if (!image) return CUDA_ERROR_FILE_NOT_FOUND;
  const struct tsr_log_buffers no_logs = {0};
  const CUresult result = load(module, image, bytes, &no_logs);
  free(image);
  return result;
}

CUresult tsr_cuModuleUnload(CUmodule hmod) {
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  TSR_CURRENT(context);
  struct tsr_module *module = TSR_FIND(tsr_module, TSR_MODULE, hmod);
  if (module) tsr_wait_all(module->context); /* others may need the lock meanwhile */
  pthread_mutex_lock(&tsr_module_lock);
  module = TSR_FIND(tsr_module, TSR_MODULE, hmod);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  /* A library's module lives as long as the library. */
  if (module && !module->library && tsr_object_retire(TSR_MODULE, (uint64_t)(uintptr_t)hmod))
    result = tsr_module_drop(module);
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

CUresult tsr_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
  if (!hfunc || !name) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_module_lock);
  struct tsr_module *module = TSR_FIND(tsr_module, TSR_MODULE, hmod);
  struct tsr_function *function;
  const CUresult result =
      module ? tsr_module_function(module, name, &function) : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS)
    *hfunc = (CUfunction)(uintptr_t)tsr_object_handle(TSR_FUNCTION, function);
  else if (result == CUDA_ERROR_NOT_FOUND)
    *hfunc = NULL;
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

CUresult tsr_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
                                  const char *name) {
  if ((!dptr && !bytes) || !name) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_module_lock);
  const struct tsr_module *module = TSR_FIND(tsr_module, TSR_MODULE, hmod);
  const CUresult result =
      module ? tsr_module_variable(module, name, dptr, bytes) : CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

/* Find a module and load all its functions, whose number and handles a program wants. */
static CUresult find_whole(CUmodule handle, struct tsr_module **module) {
  *module = TSR_FIND(tsr_module, TSR_MODULE, handle);
  return *module ? tsr_module_load_all(*module) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult tsr_cuModuleGetFunctionCount(unsigned int *count, CUmodule mod) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_module_lock);
  struct tsr_module *module;
  const CUresult result = find_whole(mod, &module);
  if (result == CUDA_SUCCESS) *count = tsr_module_usable(module, NULL, 0);
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

/* Only the functions that can run, as cuModuleGetFunctionCount counts them. */
CUresult tsr_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
                                        CUmodule mod) {
  if (!functions) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_module_lock);
  struct tsr_module *module;
  CUresult result = find_whole(mod, &module);
  if (result == CUDA_SUCCESS) {
    const uint32_t usable = tsr_module_usable(module, NULL, 0);
    const uint32_t count = usable < numFunctions ? usable : numFunctions;
    struct tsr_function **found = malloc((count ? count : 1) * sizeof *found);
    if (!found) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (found) tsr_module_usable(module, found, count);
    for (uint32_t i = 0; found && i < count; i++)
      functions[i] = (CUfunction)(uintptr_t)tsr_object_handle(TSR_FUNCTION, found[i]);
    free(found);
  }
  pthread_mutex_unlock(&tsr_module_lock);
  return result;
}

CUresult tsr_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = tsr_loads_lazily() ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}
