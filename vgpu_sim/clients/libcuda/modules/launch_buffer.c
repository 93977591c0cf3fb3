#include "modules/launch_buffer.h"

#include <string.h>

#include "exchange/ring_copy.h"
#include "memory/memory.h"

/* Offsets in the buffer, in words of 8 bytes. */
enum { LIMIT = 2, CAPACITY, RECORDS, INDEX, SELF };
enum { HEAD_BYTES = 64, ERRORS_BYTES = 1024 * 16, UNIT_BYTES = 64, MIN_RECORD_BYTES = 1 << 16 };

static uint64_t record_bytes(uint64_t limit) {
  const uint64_t bytes = limit * TESSERA_LAUNCH_RECORD_BYTES;
  return bytes < MIN_RECORD_BYTES ? MIN_RECORD_BYTES : bytes;
}

static CUresult make(struct tsr_context *context) {
  struct tsr_system_area *area = &context->system_area;
  const uint64_t limit = area->pending_launches, capacity = record_bytes(limit);
  const uint64_t index_bytes = (limit * sizeof(uint64_t) + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
  const uint64_t index = HEAD_BYTES + ERRORS_BYTES, records = index + index_bytes;
  uint64_t address;
  const CUresult result = tsr_memory_allocate(
      context, (struct tsr_sort){.use = TSR_USE_DEVICE}, records + capacity, &address);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_span span;
  if (!tsr_memory_find(address, &span)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  memset(span.alias, 0, index);
  uint64_t *const words = (uint64_t *)span.alias;
  words[LIMIT] = limit;
  words[CAPACITY] = capacity;
  words[RECORDS] = address + records;
  words[INDEX] = address + index;
  words[SELF] = address;
  area->launch_buffer = address;
  return CUDA_SUCCESS;
}

CUresult tsr_launch_buffer_tell(struct tsr_context *context, uint64_t variable) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->making);
  const CUresult result = area->launch_buffer == 0 ? make(context) : CUDA_SUCCESS;
  pthread_mutex_unlock(&area->making);
  if (result != CUDA_SUCCESS) return result;
  return tsr_segment_copy(context, variable, area->launch_buffer + SELF * sizeof(uint64_t),
                          sizeof(uint64_t));
}
