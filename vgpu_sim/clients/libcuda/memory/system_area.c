#include "memory/system_area.h"

#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "exchange/kernel_output.h"
#include "memory/memory.h"
#include "exchange/ring_copy.h"
#include "exchange/unsafe.h"

enum { UNIT_BYTES = 16, MIN_FIFO_BYTES = 1024 };
#define DEFAULT_FIFO_BYTES UINT64_C(8650752) /* of an H100, as are the stack's bytes */
#define DEFAULT_STACK_BYTES UINT64_C(1024)
#define DEFAULT_HEAP_BYTES (UINT64_C(8) << 20)
#define MAX_FIFO_BYTES (UINT64_C(1) << 30)
#define MAX_HEAP_BYTES (UINT64_C(1) << 36) /* the heap counts blocks of 16 bytes in 32 bits */

void tsr_system_area_setup(struct tsr_context *context) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_init(&area->making, NULL);
  pthread_mutex_init(&area->reading, NULL);
  area->fifo_bytes = DEFAULT_FIFO_BYTES;
  area->heap_bytes = DEFAULT_HEAP_BYTES;
  area->pending_launches = TESSERA_PENDING_LAUNCHES;
  atomic_store(&area->stack_bytes, DEFAULT_STACK_BYTES);
}

static CUresult make(struct tsr_context *context) {
  struct tsr_system_area *area = &context->system_area;
  const CUresult result =
      tsr_memory_allocate(context, (struct tsr_sort){.use = TSR_USE_DEVICE},
                          TSR_AREA_HEAD_BYTES + area->fifo_bytes + area->heap_bytes, &area->address);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_span span;
  if (!tsr_memory_find(area->address, &span)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  memset(span.alias, 0, TSR_AREA_HEAD_BYTES + area->fifo_bytes);
  uint64_t *const words = (uint64_t *)span.alias;
  words[TSR_AREA_FIFO_BYTES] = area->fifo_bytes;
  words[TSR_AREA_HEAP_BYTES] = area->heap_bytes;
  words[TSR_AREA_FIFO] = area->address + TSR_AREA_HEAD_BYTES;
  words[TSR_AREA_HEAP] = area->address + TSR_AREA_HEAD_BYTES + area->fifo_bytes;
  words[TSR_AREA_SELF] = area->address;
  area->made = true;
  pthread_mutex_lock(&area->reading);
  area->read = 0;
  area->alias = span.alias;
  pthread_mutex_unlock(&area->reading);
  return CUDA_SUCCESS;
}

CUresult tsr_system_area_tell(struct tsr_context *context, uint64_t variable) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->making);
  CUresult result = area->made ? CUDA_SUCCESS : make(context);
  pthread_mutex_unlock(&area->making);
  if (result != CUDA_SUCCESS) return result;
  return tsr_segment_copy(context, variable, area->address + TSR_AREA_SELF * sizeof(uint64_t),
                          sizeof(uint64_t));
}

/* Limits that the driver API has are unsupported; other numbers name no limit. */
static CUresult refuse_limit(CUlimit limit) {
  const bool exists = (int)limit >= 0 && (int)limit <= CU_LIMIT_LAST;
  return exists ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
  TSR_CURRENT(context);
  if (!pvalue) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_system_area *area = &context->system_area;
  switch (limit) {
    case CU_LIMIT_STACK_SIZE: *pvalue = atomic_load(&area->stack_bytes); return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE: *pvalue = area->fifo_bytes; return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE: *pvalue = area->heap_bytes; return CUDA_SUCCESS;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: *pvalue = area->pending_launches; return CUDA_SUCCESS;
    default: return refuse_limit(limit);
  }
}

/* Set the size of the FIFO, the heap or the launch buffer. A context has only one of each, so the
 * first use fixes the size. */
static CUresult set_bytes(struct tsr_system_area *area, uint64_t *bytes, uint64_t value) {
  pthread_mutex_lock(&area->making);
  const bool fixed = bytes == &area->pending_launches ? area->launch_buffer != 0 : area->made;
  const CUresult result = fixed && value != *bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) *bytes = value;
  pthread_mutex_unlock(&area->making);
  return result;
}

CUresult tsr_cuCtxSetLimit(CUlimit limit, size_t value) {
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  struct tsr_system_area *area = &context->system_area;
  const uint64_t rounded = (value + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      if (value > TESSERA_MAX_LOCAL_BYTES_PER_THREAD) return CUDA_ERROR_INVALID_VALUE;
      atomic_store(&area->stack_bytes, rounded);
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      if (value > MAX_FIFO_BYTES) return CUDA_ERROR_INVALID_VALUE;
      return set_bytes(area, &area->fifo_bytes,
                       rounded < MIN_FIFO_BYTES ? MIN_FIFO_BYTES : rounded);
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      if (value > MAX_HEAP_BYTES) return CUDA_ERROR_INVALID_VALUE;
      return set_bytes(area, &area->heap_bytes, rounded);
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      if (value > TESSERA_MAX_PENDING_LAUNCHES) return CUDA_ERROR_INVALID_VALUE;
      return set_bytes(area, &area->pending_launches, value);
    default: return refuse_limit(limit);
  }
}
