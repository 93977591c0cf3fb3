#define _GNU_SOURCE
#include "modules/prelinked.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exchange/request.h"
#include "log.h"

/* What toolkits pass to register a fat binary (modules/image.c). */
struct wrapper {
  uint32_t magic, version;
  const void *fat_binary;
  const void *const *others; /* version 2: the fat binaries of the objects, then NULL */
};
enum { WRAPPER_MAGIC = 0x466243b1, LINKED_VERSION = 2, MAX_OBJECTS = 4096 };

/* A gathered image begins with this, and the inputs of a link follow (MODULE_LINK). */
static const char gathered_magic[8] = "\x89TLNK\r\n\x1a";
struct input_head {
  uint32_t name_bytes, kind;
  uint64_t image_bytes;
};

static CUresult append(uint8_t **data, size_t *bytes, const void *image,
                       const struct tsr_log_buffers *logs) {
  size_t image_bytes;
  const CUresult result = tsr_image_check(&image, TSR_IMAGE_IN_MEMORY, &image_bytes, logs);
  if (result != CUDA_SUCCESS) return result;
  static const char name[] = "an object of the program";
  const struct input_head head = {.name_bytes = sizeof name - 1,
                                  .kind = TESSERA_LINK_INPUT_OBJECT,
                                  .image_bytes = image_bytes};
  const size_t more = sizeof head + head.name_bytes + image_bytes;
  if (more > TESSERA_MAX_IMAGE_BYTES - *bytes) return CUDA_ERROR_INVALID_IMAGE;
  uint8_t *grown = realloc(*data, *bytes + more);
  if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
  *data = grown;
  uint8_t *at = grown + *bytes;
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, name, head.name_bytes);
  memcpy(at + sizeof head + head.name_bytes, image, image_bytes);
  *bytes += more;
  return CUDA_SUCCESS;
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

/* Have the worker link; the caller frees the container. */
static CUresult link_objects(struct tsr_context *context, const uint8_t *inputs, size_t size,
                             const struct tsr_log_buffers *logs, uint8_t **container,
                             size_t *bytes) {
  const int fd = tsr_memory_file(inputs, size);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  struct tsr_reply reply;
  const tessera_module_load load = {.image_bytes = size, .flags = TESSERA_LINK_FLAG_LINK};
  CUresult result =
      tsr_ask(context, TESSERA_MESSAGE_TYPE_MODULE_LINK, &load, sizeof load, fd, &reply);
  close(fd);
  tessera_module_table made = {0};
  const bool answered = reply.fds[0] >= 0 && reply.payload_bytes == sizeof made;
  if (answered) memcpy(&made, reply.payload, sizeof made);
  struct tsr_table table;
  if (answered && result != CUDA_SUCCESS &&
      tsr_table_read(&table, reply.fds[0], made.table_bytes)) {
    tsr_log_buffers_fill(logs, result, table.log, table.log_bytes);
    tsr_log("the program's device code was not linked (CUDA error %d)", (int)result);
    tsr_log_lines(table.log, table.log_bytes);
    free(table.data);
  }
  if (result == CUDA_SUCCESS) {
    const bool fits = answered && made.table_bytes <= TESSERA_MAX_IMAGE_BYTES;
    *container = fits ? malloc(made.table_bytes + 1) : NULL;
    *bytes = made.table_bytes;
    if (!*container ||
        pread(reply.fds[0], *container, made.table_bytes, 0) != (ssize_t)made.table_bytes) {
      free(*container);
      result = answered ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    }
  }
  tsr_reply_close(&reply);
  return result;
}

CUresult tsr_prelinked_fetch(struct tsr_context *context, const void *image, size_t bytes,
                             const struct tsr_log_buffers *logs, struct tsr_module **out) {
  if (bytes < sizeof gathered_magic || memcmp(image, gathered_magic, sizeof gathered_magic) != 0)
    return tsr_module_fetch(context, image, bytes, logs, out);
  uint8_t *container;
  size_t container_bytes;
  CUresult result = link_objects(context, (const uint8_t *)image + sizeof gathered_magic,
                                 bytes - sizeof gathered_magic, logs, &container, &container_bytes);
  if (result != CUDA_SUCCESS) return result;
  result = tsr_module_fetch(context, container, container_bytes, logs, out);
  free(container);
  return result;
}
