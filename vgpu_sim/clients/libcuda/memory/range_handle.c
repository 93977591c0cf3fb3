/* Descriptors of ranges of device memory for an HCA, to be passed to ibv_reg_dmabuf_mr(). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "api.h"
#include "base/aperture.h"
#include "contexts/context.h"
#include "base/device.h"
#include "log.h"
#include "memory/memory.h"
#include "exchange/request.h"

#define PAGE TESSERA_RANGE_ALIGN_BYTES

/* Whether a range of an allocation may be exported. The last page of an allocation that has its
 * own chunk belongs to it completely. */
static bool holds(const struct tsr_span *span, uint64_t from, uint64_t bytes) {
  uint64_t has = span->bytes;
  if (has >= TSR_OWN_CHUNK_BYTES) has = (has + PAGE - 1) / PAGE * PAGE;
  const uint64_t offset = from - span->address;
  return offset < has && bytes <= has - offset;
}

/* The file contains no device data, and is sealed so that it cannot be read or mapped by
 * mistake. */
static int for_writing(int fd) {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, O_WRONLY | O_CLOEXEC);
}

CUresult tsr_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
                                           CUmemRangeHandleType handleType,
                                           unsigned long long flags) {
  TSR_CURRENT(context);
  struct tsr_span span;
  if (!handle || handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || size == 0 || size % PAGE ||
      dptr % PAGE || !tsr_memory_find(dptr, &span) || span.kind != TESSERA_CHUNK_KIND_DEVICE ||
      !holds(&span, dptr, size))
    return CUDA_ERROR_INVALID_VALUE;
  /* A flag selects a PCIe mapping, on boards that also have another one. */
  if (flags || tsr_device_attribute(span.context->device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0) <= 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  const tessera_chunk wanted = {
      .offset = dptr - tsr_aperture_base, .bytes = size, .kind = span.kind};
  struct tsr_reply reply;
  CUresult result = tsr_ask(span.context, TESSERA_MESSAGE_TYPE_RANGE_SHARE, &wanted, sizeof wanted,
                            -1, &reply);
  if (result == CUDA_SUCCESS) {
    const int fd = reply.fds[0] < 0 ? -1 : for_writing(reply.fds[0]);
    if (fd >= 0)
      *(int *)handle = fd;
    else
      result = CUDA_ERROR_OPERATING_SYSTEM;
    if (fd < 0) tsr_log("cuMemGetHandleForAddressRange: no descriptor, or no /proc to open it at");
  }
  tsr_reply_close(&reply);
  return result;
}
