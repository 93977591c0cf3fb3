/* Links by the driver's cuLink... functions, in the current context, or else in the primary context
   of the first device. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "driver_types.h"
#include "old_symbol.h"
#include "state.h"

TSR_OLD_SYMBOL(dlopen);
TSR_OLD_SYMBOL(dlsym);

/* CALL(result type is CUresult, symbol, parameters) */
#define CALLS                                                                                  \
  CALL(cuInit, (unsigned))                                                                     \
  CALL(cuCtxGetCurrent, (CUcontext *))                                                         \
  CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                      \
  CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                               \
  CALL(cuCtxPushCurrent_v2, (CUcontext))                                                       \
  CALL(cuCtxPopCurrent_v2, (CUcontext *))                                                      \
  CALL(cuLinkCreate_v2, (unsigned, CUjit_option *, void **, CUlinkState *))                    \
  CALL(cuLinkAddData_v2, (CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned, \
                          CUjit_option *, void **))                                            \
  CALL(cuLinkComplete, (CUlinkState, void **, size_t *))                                       \
  CALL(cuLinkDestroy, (CUlinkState))

struct driver {
#define CALL(name, parameters) CUresult(*name) parameters;
  CALLS
#undef CALL
};

static bool load(struct driver *driver) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  bool whole = true;
#define CALL(name, parameters)                                   \
  *(void **)&driver->name = dlsym(library, #name);               \
  whole &= driver->name != NULL;
  CALLS
#undef CALL
  return whole;
}

static CUjitInputType type_for_driver(nvJitLinkInputType type) {
  switch (type) {
    case NVJITLINK_INPUT_PTX:
      return CU_JIT_INPUT_PTX;
    case NVJITLINK_INPUT_FATBIN:
      return CU_JIT_INPUT_FATBINARY;
    case NVJITLINK_INPUT_OBJECT:
      return CU_JIT_INPUT_OBJECT;
    case NVJITLINK_INPUT_LIBRARY:
      return CU_JIT_INPUT_LIBRARY;
    default:
      return CU_JIT_INPUT_CUBIN;
  }
}

static nvJitLinkResult result_of(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS:
      return NVJITLINK_SUCCESS;
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_NOT_SUPPORTED:
      return NVJITLINK_ERROR_PTX_COMPILE;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return NVJITLINK_ERROR_MISSING_FATBIN;
    default:
      return NVJITLINK_ERROR_INTERNAL;
  }
}

/* Append what the driver has written to the error log. */
static void keep_log(struct nvJitLink *link, char *log, CUresult result) {
  if (log[0]) state_report(link, "%s", log);
  if (result != CUDA_SUCCESS)
    state_report(link, "error   : the driver did not link (CUDA error %d)", (int)result);
}

static CUresult link_inputs(const struct driver *driver, struct nvJitLink *link, char *log) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_MAX_REGISTERS};
  void *values[] = {log, (void *)(uintptr_t)LOG_BYTES, (void *)(uintptr_t)link->max_registers};
  const unsigned count = link->max_registers ? 3 : 2;
  CUlinkState state;
  CUresult result = driver->cuLinkCreate_v2(count, options, values, &state);
  if (result != CUDA_SUCCESS) return result;
  for (size_t i = 0; result == CUDA_SUCCESS && i < link->input_count; i++) {
    const struct input *one = &link->inputs[i];
    result = driver->cuLinkAddData_v2(state, type_for_driver(one->type), one->data, one->bytes,
                                      one->name, 0, NULL, NULL);
  }
  void *linked;
  size_t bytes;
  if (result == CUDA_SUCCESS) result = driver->cuLinkComplete(state, &linked, &bytes);
  if (result == CUDA_SUCCESS) {
    link->linked = malloc(bytes);
    if (link->linked) memcpy(link->linked, linked, link->linked_bytes = bytes);
    if (!link->linked) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  driver->cuLinkDestroy(state);
  return result;
}

nvJitLinkResult driver_link(struct nvJitLink *link) {
  struct driver driver;
  char *log = calloc(1, LOG_BYTES);
  if (!log || !load(&driver)) {
    state_report(link, "error   : Tessera's libcuda.so.1 cannot be loaded");
    free(log);
    return NVJITLINK_ERROR_INTERNAL;
  }
  CUcontext context = NULL;
  const CUdevice device = 0;
  CUresult result = driver.cuInit(0);
  if (result == CUDA_SUCCESS) result = driver.cuCtxGetCurrent(&context);
  const bool borrowed = result == CUDA_SUCCESS && !context;
  if (borrowed) result = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (borrowed && result == CUDA_SUCCESS) {
    result = driver.cuCtxPushCurrent_v2(context);
    if (result == CUDA_SUCCESS) {
      result = link_inputs(&driver, link, log);
      driver.cuCtxPopCurrent_v2(&context);
    }
    driver.cuDevicePrimaryCtxRelease_v2(device);
  } else if (result == CUDA_SUCCESS) {
    result = link_inputs(&driver, link, log);
  }
  keep_log(link, log, result);
  free(log);
  return result_of(result);
}
