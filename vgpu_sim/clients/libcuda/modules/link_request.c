#define _GNU_SOURCE
#include "modules/link_request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exchange/request.h"
#include "log.h"

struct input_head {
  uint32_t name_bytes, kind;
  uint64_t image_bytes;
};

CUresult tsr_link_append(uint8_t **inputs, size_t *bytes, const char *name, uint32_t kind,
                         const void *image, size_t image_bytes) {
  const struct input_head head = {
      .name_bytes = (uint32_t)strlen(name), .kind = kind, .image_bytes = image_bytes};
  const size_t more = sizeof head + head.name_bytes + image_bytes;
  if (more > TESSERA_MAX_IMAGE_BYTES - *bytes) return CUDA_ERROR_INVALID_IMAGE;
  uint8_t *grown = realloc(*inputs, *bytes + more);
  if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
  *inputs = grown;
  uint8_t *at = grown + *bytes;
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, name, head.name_bytes);
  memcpy(at + sizeof head + head.name_bytes, image, image_bytes);
  *bytes += more;
  return CUDA_SUCCESS;
}

CUresult tsr_link_request(struct tsr_context *context, const void *inputs, size_t size,
                          uint32_t flags, const struct tsr_log_buffers *logs, const char *what,
                          bool *refused, uint8_t **answer, size_t *answer_bytes) {
  *refused = false;
  const int fd = tsr_memory_file(inputs, size);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  struct tsr_reply reply;
  const tessera_module_load load = {.image_bytes = size, .flags = flags};
  CUresult result =
      tsr_ask(context, TESSERA_MESSAGE_TYPE_MODULE_LINK, &load, sizeof load, fd, &reply);
  close(fd);
  tessera_module_table made;
  const bool answered = reply.fds[0] >= 0 && reply.payload_bytes == sizeof made;
  if (answered) memcpy(&made, reply.payload, sizeof made);
  if (answered && result != CUDA_SUCCESS) {
    *refused = true;
    struct tsr_table table;
    if (tsr_table_read(&table, reply.fds[0], made.table_bytes)) {
      tsr_log_buffers_fill(logs, result, table.log, table.log_bytes);
      tsr_log("%s (CUDA error %d)", what, (int)result);
      tsr_log_lines(table.log, table.log_bytes);
      free(table.data);
    }
  } else if (result == CUDA_SUCCESS && answer) {
    uint8_t *bytes = answered && made.table_bytes <= TESSERA_MAX_IMAGE_BYTES * 4
                         ? malloc(made.table_bytes + 1)
                         : NULL;
    if (bytes && pread(reply.fds[0], bytes, made.table_bytes, 0) == (ssize_t)made.table_bytes) {
      *answer = bytes;
      *answer_bytes = made.table_bytes;
      tsr_log_buffers_fill(logs, result, NULL, 0);
    } else {
      free(bytes);
      result = answered ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    }
  }
  tsr_reply_close(&reply);
  return result;
}
