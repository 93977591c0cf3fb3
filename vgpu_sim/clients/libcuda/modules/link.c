/* cuLink...: links PTX texts, and files that contain PTX, into one container. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "modules/link_request.h"

static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult tsr_cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                             CUlinkState *stateOut) {
  TSR_CURRENT(context);
  if (!stateOut || (numOptions && (!options || !optionValues))) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_link *link = tsr_object_new(TSR_LINK);
  if (!link) return CUDA_ERROR_OUT_OF_MEMORY;
  link->logs = calloc(1, sizeof *link->logs);
  if (!link->logs) {
    tsr_object_free(TSR_LINK, link);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  tsr_log_buffers_read(link->logs, numOptions, options, optionValues);
  link->context_handle = tsr_object_handle(TSR_CONTEXT, context);
  *stateOut = (CUlinkState)(uintptr_t)tsr_object_publish(TSR_LINK, link);
  return CUDA_SUCCESS;
}

/* Have the worker link or check. `bytes`, unless NULL, receives the result, which the caller
 * frees. */
static CUresult ask(struct tsr_link *link, const void *inputs, size_t size, uint32_t flag,
                    uint8_t **answer, size_t *answer_bytes) {
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, link->context_handle);
  if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  bool refused;
  const CUresult result = tsr_link_request(
      context, inputs, size, flag | link->logs->max_registers << TESSERA_LINK_REGISTERS_SHIFT,
      link->logs, "not linked", &refused, answer, answer_bytes);
  if (refused) tsr_image_refused();
  return result;
}

/* Append an input, and check it separately as far as that is possible. Under the lock. */
static CUresult add(struct tsr_link *link, const void *image, size_t bytes, const char *name,
                    uint32_t kind) {
  size_t grown = link->input_bytes;
  CUresult result = tsr_link_append(&link->inputs, &grown, name, kind, image, bytes);
  if (result != CUDA_SUCCESS) return result;
  result = ask(link, link->inputs + link->input_bytes, grown - link->input_bytes,
               TESSERA_LINK_FLAG_CHECK, NULL, NULL);
  if (result == CUDA_SUCCESS) link->input_bytes = grown;
  return result;
}

CUresult tsr_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                              const char *name, unsigned int numOptions, CUjit_option *options,
                              void **optionValues) {
  (void)options, (void)optionValues; /* hints for one input */
  if (!data || size == 0 || (numOptions && (!options || !optionValues)) ||
      (int)type < 0 || type > CU_JIT_INPUT_LIBRARY)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&link_lock);
  struct tsr_link *link = TSR_FIND(tsr_link, TSR_LINK, state);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (link && link->linked) {
    result = CUDA_ERROR_INVALID_VALUE; /* complete */
  } else if (link && type == CU_JIT_INPUT_PTX) {
    result = add(link, data, strnlen(data, size), name ? name : "<input>",
                 TESSERA_LINK_INPUT_TEXT);
  } else if (link) {
    result = add(link, data, size, name ? name : "<input>", TESSERA_LINK_INPUT_BINARY);
  }
  pthread_mutex_unlock(&link_lock);
  return result;
}

CUresult tsr_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                              unsigned int numOptions, CUjit_option *options,
                              void **optionValues) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes;
  char *data = tsr_image_read(path, &bytes);
  if (!data) return CUDA_ERROR_FILE_NOT_FOUND;
  const CUresult result = tsr_cuLinkAddData_v2(state, type, data, bytes, path, numOptions, options,
                                               optionValues);
  free(data);
  return result;
}

CUresult tsr_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
  if (!cubinOut) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&link_lock);
  struct tsr_link *link = TSR_FIND(tsr_link, TSR_LINK, state);
  CUresult result = link ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  if (link && link->input_bytes == 0) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && !link->linked)
    result = ask(link, link->inputs, link->input_bytes, TESSERA_LINK_FLAG_LINK, &link->linked,
                 &link->linked_bytes);
  if (result == CUDA_SUCCESS) {
    *cubinOut = link->linked;
    if (sizeOut) *sizeOut = link->linked_bytes;
  }
  pthread_mutex_unlock(&link_lock);
  return result;
}

CUresult tsr_cuLinkDestroy(CUlinkState state) {
  pthread_mutex_lock(&link_lock);
  struct tsr_link *link = TSR_FIND(tsr_link, TSR_LINK, state);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (link && tsr_object_retire(TSR_LINK, (uint64_t)(uintptr_t)state)) {
    free(link->logs);
    free(link->inputs);
    free(link->linked);
    tsr_object_free(TSR_LINK, link);
    result = CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&link_lock);
  return result;
}
