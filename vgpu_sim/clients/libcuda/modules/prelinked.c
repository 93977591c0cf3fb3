#include "modules/prelinked.h"

#include <stdlib.h>
#include <string.h>

#include "modules/link_request.h"

/* What toolkits pass to register a fat binary (modules/image.c). */
struct wrapper {
  uint32_t magic, version;
  const void *fat_binary;
  const void *const *others; /* version 2: the fat binaries of the objects, then NULL */
};
enum { WRAPPER_MAGIC = 0x466243b1, LINKED_VERSION = 2, MAX_OBJECTS = 4096 };

/* A gathered image begins with this, and the inputs of a link follow (MODULE_LINK). */
static const char gathered_magic[8] = {'\x89', 'T', 'L', 'N', 'K', '\r', '\n', '\x1a'};

static CUresult append(uint8_t **data, size_t *bytes, const void *image,
                       const struct tsr_log_buffers *logs) {
  size_t image_bytes;
  const CUresult result = tsr_image_check(&image, TSR_IMAGE_IN_MEMORY, &image_bytes, logs);
  if (result != CUDA_SUCCESS) return result;
  return tsr_link_append(data, bytes, "an object of the program", TESSERA_LINK_INPUT_OBJECT, image,
                         image_bytes);
}

CUresult tsr_prelinked_gather(const void *image, size_t room, const struct tsr_log_buffers *logs,
                              void **gathered, size_t *bytes) {
  struct wrapper wrapper;
  *gathered = NULL;
  if (room != TSR_IMAGE_IN_MEMORY) return CUDA_SUCCESS;
  for (unsigned i = 0; i < sizeof wrapper.magic; i++) /* a shorter text ends with a NUL */
    if (((const uint8_t *)image)[i] != (uint8_t)(WRAPPER_MAGIC >> 8 * i)) return CUDA_SUCCESS;
  memcpy(&wrapper, image, sizeof wrapper);
  if (wrapper.version != LINKED_VERSION || !wrapper.others || !wrapper.others[0])
    return CUDA_SUCCESS;
  uint8_t *data = malloc(sizeof gathered_magic);
  if (!data) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(data, gathered_magic, sizeof gathered_magic);
  *bytes = sizeof gathered_magic;
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; result == CUDA_SUCCESS && wrapper.others[i]; i++)
    result = i < MAX_OBJECTS ? append(&data, bytes, wrapper.others[i], logs)
                             : CUDA_ERROR_INVALID_IMAGE;
  if (result == CUDA_SUCCESS)
    *gathered = data;
  else
    free(data);
  return result;
}

CUresult tsr_prelinked_fetch(struct tsr_context *context, const void *image, size_t bytes,
                             const struct tsr_log_buffers *logs, struct tsr_module **out) {
  if (bytes < sizeof gathered_magic || memcmp(image, gathered_magic, sizeof gathered_magic) != 0)
    return tsr_module_fetch(context, image, bytes, logs, out);
  uint8_t *container;
  size_t container_bytes;
  bool refused; /* and the log has the reason */
  CUresult result =
      tsr_link_request(context, (const uint8_t *)image + sizeof gathered_magic,
                       bytes - sizeof gathered_magic, TESSERA_LINK_FLAG_LINK, logs,
                       "the program's device code was not linked", &refused, &container,
                       &container_bytes);
  if (result != CUDA_SUCCESS) return result;
  result = container_bytes > TESSERA_MAX_IMAGE_BYTES
               ? CUDA_ERROR_OUT_OF_MEMORY
               : tsr_module_fetch(context, container, container_bytes, logs, out);
  free(container);
  return result;
}
