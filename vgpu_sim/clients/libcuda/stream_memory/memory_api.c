/* cuMem...: allocation of device and pinned memory in the current context. An allocation that fails
 * writes a null pointer, as NVIDIA's driver does. */
#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "memory/advice.h"
#include "memory/graph_memory.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "sharing/opened.h"
#include "stream_memory/allocate.h"
#include "stream_memory/external.h"
#include "exchange/request.h"
#include "exchange/unsafe.h"
#include "exchange/wait.h"

CUresult tsr_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
  if (dptr) *dptr = 0;
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  if (!dptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  const CUresult result =
      tsr_allocate(context, (struct tsr_sort){.use = TSR_USE_DEVICE}, bytesize, &address);
  if (result == CUDA_SUCCESS) *dptr = address;
  return result;
}

/* Rows begin at multiples of the alignment that textures need. */
CUresult tsr_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                                size_t Height, unsigned int ElementSizeBytes) {
  const size_t unit = 512;
  size_t bytes;
  if (dptr) *dptr = 0;
  if (pPitch) *pPitch = 0;
  if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0 ||
      (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
    return CUDA_ERROR_INVALID_VALUE;
  if (WidthInBytes > INT32_MAX - unit) return CUDA_ERROR_INVALID_VALUE; /* the greatest pitch */
  const size_t pitch = (WidthInBytes + unit - 1) / unit * unit;
  if (__builtin_mul_overflow(pitch, Height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = tsr_cuMemAlloc_v2(dptr, bytes);
  if (result == CUDA_SUCCESS) *pPitch = pitch;
  return result;
}

/* Memory of a pool returns to its pool; memory of a graph stays reserved for the next launch. */
CUresult tsr_cuMemFree_v2(CUdeviceptr dptr) {
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  struct tsr_span span;
  if (!dptr) return CUDA_SUCCESS;
  CUresult freed;
  if (tsr_external_free(dptr, &freed)) return freed;
  if (!tsr_memory_find(dptr, &span) || span.address != dptr || span.sort.module)
    return CUDA_ERROR_INVALID_VALUE;
  if (tsr_graph_memory_is(dptr)) {
    const CUresult waited = tsr_wait_all(span.context);
    return waited == CUDA_SUCCESS ? tsr_graph_memory_free(dptr) : waited;
  }
  if (span.sort.use == TSR_USE_OPENED && span.sort.pool)
    return tsr_opened_close(dptr, span.sort.pool);
  if (!span.sort.pool)
    return tsr_memory_free(dptr, span.sort.use == TSR_USE_MANAGED ? TSR_USE_MANAGED : TSR_USE_DEVICE);
  const CUresult waited = tsr_wait_all(span.context);
  return waited == CUDA_SUCCESS ? tsr_pool_free(dptr, NULL, TSR_LEGACY_STREAM) : waited;
}

/* Managed memory is host memory that kernels access at the same address; there is no copy of it,
 * so nothing migrates. */
CUresult tsr_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
  if (dptr) *dptr = 0;
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  if (!dptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  const CUresult result =
      tsr_allocate(context, (struct tsr_sort){.use = TSR_USE_MANAGED}, bytesize, &address);
  if (result != CUDA_SUCCESS) return result;
  tsr_advice_forget(address, bytesize);
  *dptr = address;
  return CUDA_SUCCESS;
}

/* Zero bytes are no error, as in NVIDIA's driver, and unlike zero bytes of device memory. */
CUresult tsr_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
  if (pp) *pp = NULL;
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  const unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!pp || (Flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  if (bytesize == 0) return CUDA_SUCCESS;
  uint64_t address;
  /* With one address space all pinned memory is mapped into the device. */
  const struct tsr_sort sort = {.use = TSR_USE_PINNED,
                                .host_flags = Flags | CU_MEMHOSTALLOC_DEVICEMAP};
  const CUresult result = tsr_allocate(context, sort, bytesize, &address);
  if (result == CUDA_SUCCESS) *pp = (void *)(uintptr_t)address;
  return result;
}

CUresult tsr_cuMemAllocHost_v2(void **pp, size_t bytesize) {
  return tsr_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult tsr_cuMemFreeHost(void *p) {
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  return p ? tsr_memory_free((uint64_t)(uintptr_t)p, TSR_USE_PINNED) : CUDA_SUCCESS;
}

CUresult tsr_cuMemGetInfo_v2(size_t *free, size_t *total) {
  TSR_CURRENT(context);
  struct tsr_reply reply;
  const CUresult result =
      tsr_ask(context, TESSERA_MESSAGE_TYPE_MEMORY_INFO, NULL, 0, -1, &reply);
  if (result != CUDA_SUCCESS) return result;
  tsr_reply_close(&reply);
  tessera_memory_info info;
  if (reply.payload_bytes != sizeof info) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  memcpy(&info, reply.payload, sizeof info);
  if (free) *free = info.free_bytes;
  if (total) *total = info.total_bytes;
  return CUDA_SUCCESS;
}
