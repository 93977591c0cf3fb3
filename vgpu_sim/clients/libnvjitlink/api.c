/* The functions that programs call. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "state.h"

#define EXPORT __attribute__((visibility("default")))

/* The interface up to 12.2: from 12.3 on programs expect that LTO-IR can be linked (ADR 133). */
enum { VERSION_MAJOR = 12, VERSION_MINOR = 2 };

static const char empty_module[] = ".version 7.0\n.target sm_50\n.address_size 64\n";

#define FUNCTION(name, parameters) EXPORT nvJitLinkResult nvJitLink##name parameters;
#include "functions.def"
#undef FUNCTION
EXPORT nvJitLinkResult nvJitLinkVersion(unsigned int *major, unsigned int *minor);

nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle *handle, uint32_t numOptions,
                                const char **options) {
  if (!handle || !options) return NVJITLINK_ERROR_NULL_INPUT;
  struct nvJitLink *link = calloc(1, sizeof *link);
  if (!link) return NVJITLINK_ERROR_INTERNAL;
  const nvJitLinkResult result = options_read(link, numOptions, options);
  if (result == NVJITLINK_SUCCESS)
    *handle = link;
  else
    free(link);
  return result;
}

nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle *handle) {
  if (!handle || !*handle) return NVJITLINK_ERROR_NULL_INPUT;
  inputs_free(*handle);
  free((*handle)->linked);
  free(*handle);
  *handle = NULL;
  return NVJITLINK_SUCCESS;
}

nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType inputType,
                                 const void *data, size_t size, const char *name) {
  if (!handle || !data) return NVJITLINK_ERROR_NULL_INPUT;
  return inputs_add(handle, inputType, data, size, name);
}

nvJitLinkResult nvJitLinkAddFile(nvJitLinkHandle handle, nvJitLinkInputType inputType,
                                 const char *fileName) {
  if (!handle || !fileName) return NVJITLINK_ERROR_NULL_INPUT;
  return inputs_add_file(handle, inputType, fileName);
}

nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle handle) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  if (handle->linked) return NVJITLINK_SUCCESS;
  if (handle->input_count > 0) return driver_link(handle);
  /* A link of nothing succeeds; its result is a module of nothing. */
  handle->linked = (uint8_t *)strdup(empty_module);
  handle->linked_bytes = sizeof empty_module;
  return handle->linked ? NVJITLINK_SUCCESS : NVJITLINK_ERROR_INTERNAL;
}

/* Return the PTX of a link with -lto -ptx. Only one text is PTX as a whole. */
static const struct input *find_ptx(const struct nvJitLink *link) {
  const bool whole = link->linked && link->wants_ptx && link->input_count == 1;
  return whole && link->inputs[0].type == NVJITLINK_INPUT_PTX ? &link->inputs[0] : NULL;
}

static nvJitLinkResult put_size(size_t *size, bool exists, size_t value) {
  if (!size) return NVJITLINK_ERROR_NULL_INPUT;
  if (!exists) return NVJITLINK_ERROR_INVALID_INPUT;
  *size = value;
  return NVJITLINK_SUCCESS;
}

static nvJitLinkResult put(void *to, bool exists, const void *from, size_t bytes) {
  if (!to) return NVJITLINK_ERROR_NULL_INPUT;
  if (!exists) return NVJITLINK_ERROR_INVALID_INPUT;
  memcpy(to, from, bytes);
  return NVJITLINK_SUCCESS;
}

nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t *size) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  return put_size(size, handle->linked != NULL, handle->linked_bytes);
}

nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void *cubin) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  return put(cubin, handle->linked != NULL, handle->linked, handle->linked_bytes);
}

nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle handle, size_t *size) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  const struct input *ptx = find_ptx(handle);
  return put_size(size, ptx != NULL, ptx ? ptx->bytes + 1 : 0);
}

nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle handle, char *ptx) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  const struct input *found = find_ptx(handle);
  const nvJitLinkResult result =
      put(ptx, found != NULL, found ? found->data : NULL, found ? found->bytes : 0);
  if (result == NVJITLINK_SUCCESS) ptx[found->bytes] = 0;
  return result;
}

/* There is no LTO-IR, because none can be added. */
nvJitLinkResult nvJitLinkGetLinkedLTOIRSize(nvJitLinkHandle handle, size_t *size) {
  return handle ? put_size(size, false, 0) : NVJITLINK_ERROR_NULL_INPUT;
}

nvJitLinkResult nvJitLinkGetLinkedLTOIR(nvJitLinkHandle handle, void *ltoir) {
  return handle ? put(ltoir, false, NULL, 0) : NVJITLINK_ERROR_NULL_INPUT;
}

/* The size of a log includes its NUL. An empty log has size 0, and yet its NUL is written: as
 * NVIDIA's library does. */
static size_t log_bytes(const char *log) { return log[0] ? strlen(log) + 1 : 0; }

static nvJitLinkResult put_log(char *to, const char *log) {
  return put(to, true, log, strlen(log) + 1);
}

nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t *size) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  return put_size(size, true, log_bytes(handle->errors));
}

nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  return put_log(log, handle->errors);
}

nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle handle, size_t *size) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  return put_size(size, true, log_bytes(handle->information));
}

nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle handle, char *log) {
  if (!handle) return NVJITLINK_ERROR_NULL_INPUT;
  return put_log(log, handle->information);
}

nvJitLinkResult nvJitLinkVersion(unsigned int *major, unsigned int *minor) {
  if (!major || !minor) return NVJITLINK_ERROR_NULL_INPUT;
  *major = VERSION_MAJOR;
  *minor = VERSION_MINOR;
  return NVJITLINK_SUCCESS;
}

/* The names that the toolkit's headers use, one for each of its versions. */
#define JOIN_(name, major, minor) __nvJitLink##name##_##major##_##minor
#define JOIN(name, major, minor) JOIN_(name, major, minor)
#define ALIAS(name, parameters, minor)                     \
  EXPORT nvJitLinkResult JOIN(name, TSR_MAJOR, minor) parameters \
      __attribute__((alias("nvJitLink" #name)));
#define FUNCTION(name, parameters)                                                    \
  ALIAS(name, parameters, 0) ALIAS(name, parameters, 1) ALIAS(name, parameters, 2)    \
  ALIAS(name, parameters, 3) ALIAS(name, parameters, 4) ALIAS(name, parameters, 5)    \
  ALIAS(name, parameters, 6) ALIAS(name, parameters, 7) ALIAS(name, parameters, 8)    \
  ALIAS(name, parameters, 9)
#include "functions.def"
