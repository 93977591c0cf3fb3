#include "modules/launch_buffer.h"

#include <string.h>

#include "exchange/ring_copy.h"
#include "log.h"
#include "memory/memory.h"

/* Offsets in the buffer, in words of 8 bytes. */
enum { LIMIT = 2, CAPACITY, RECORDS, INDEX, SELF };
enum { HEAD_BYTES = 64, ERRORS_BYTES = 1024 * 16, UNIT_BYTES = 64, MIN_RECORD_BYTES = 1 << 16 };
/* Words after the errors: the current graph's list, the number of entries, and these. */
enum {
  GRAPHS = (HEAD_BYTES + ERRORS_BYTES) / 8,
  GRAPH_COUNT = GRAPHS + 1,
  ENTRIES,
  ENTRY_WORDS = 3, /* handle, 0: a free entry; address and slots of the list */
  MOST_GRAPHS = 256,
  GRAPHS_BYTES = (2 + ENTRY_WORDS * MOST_GRAPHS) * 8 / UNIT_BYTES * UNIT_BYTES + UNIT_BYTES,
};

static uint64_t record_bytes(uint64_t limit) {
  const uint64_t bytes = limit * TESSERA_LAUNCH_RECORD_BYTES;
  return bytes < MIN_RECORD_BYTES ? MIN_RECORD_BYTES : bytes;
}

static CUresult make(struct tsr_context *context) {
  struct tsr_system_area *area = &context->system_area;
  const uint64_t limit = area->pending_launches, capacity = record_bytes(limit);
  const uint64_t index_bytes = (limit * sizeof(uint64_t) + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
  const uint64_t index = HEAD_BYTES + ERRORS_BYTES + GRAPHS_BYTES, records = index + index_bytes;
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

/* Return the words of a buffer, or NULL if the context has ended. */
static uint64_t *words_of(const struct tsr_system_area *area) {
  struct tsr_span span;
  return tsr_memory_find(area->launch_buffer, &span) ? (uint64_t *)span.alias : NULL;
}

/* Of an entry's handle: the graph has another list, or is gone; launches of this one go on. */
#define RETIRED (UINT64_C(1) << 63)
/* Only the host can launch the graph, but its kernels can launch others. */
#define OF_HOST (UINT64_C(1) << 62)

/* Return the number of entries. Kernels can write it. */
static uint64_t count_of(const uint64_t *words) {
  const uint64_t count = __atomic_load_n(&words[GRAPH_COUNT], __ATOMIC_RELAXED);
  return count < MOST_GRAPHS ? count : MOST_GRAPHS;
}

/* Return the place of a free entry, or MOST_GRAPHS. */
static uint32_t find_free(const uint64_t *words) {
  const uint32_t count = (uint32_t)count_of(words);
  for (uint32_t i = 0; i < count; i++)
    if (words[ENTRIES + ENTRY_WORDS * i] == 0) return i;
  return count;
}

bool tsr_launch_buffer_must_wait(struct tsr_context *context) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->making);
  const uint64_t *const words = area->launch_buffer ? words_of(area) : NULL;
  bool is_retired = false;
  if (words && find_free(words) == MOST_GRAPHS)
    for (uint32_t i = 0; i < MOST_GRAPHS && !is_retired; i++)
      is_retired = words[ENTRIES + ENTRY_WORDS * i] & RETIRED;
  pthread_mutex_unlock(&area->making);
  return is_retired;
}

CUresult tsr_launch_buffer_publish(struct tsr_context *context, uint64_t graph, bool of_host,
                                   uint64_t list, uint32_t slots, uint32_t *place) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->making);
  CUresult result = area->launch_buffer == 0 ? make(context) : CUDA_SUCCESS;
  uint64_t *const words = result == CUDA_SUCCESS ? words_of(area) : NULL;
  if (result == CUDA_SUCCESS && !words) result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (result == CUDA_SUCCESS) {
    const uint32_t i = find_free(words);
    if (i < MOST_GRAPHS) {
      uint64_t *entry = &words[ENTRIES + ENTRY_WORDS * i];
      entry[1] = list;
      entry[2] = slots;
      __atomic_store_n(&entry[0], of_host ? graph | OF_HOST : graph, __ATOMIC_RELEASE);
      if (i == count_of(words)) words[GRAPH_COUNT] = i + 1;
      *place = i + 1;
    } else {
      result = CUDA_ERROR_OUT_OF_MEMORY;
      tsr_log("%d graphs that kernels launch exist (CUDA error %d)", MOST_GRAPHS, (int)result);
    }
  }
  pthread_mutex_unlock(&area->making);
  return result;
}

void tsr_launch_buffer_retire(struct tsr_context *context, uint32_t place) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->making);
  uint64_t *const words = words_of(area);
  if (words) __atomic_fetch_or(&words[ENTRIES + ENTRY_WORDS * (place - 1)], RETIRED, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&area->making);
}

void tsr_launch_buffer_forget(struct tsr_context *context, uint32_t place) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->making);
  uint64_t *const words = words_of(area);
  if (words) {
    uint64_t *entry = &words[ENTRIES + ENTRY_WORDS * (place - 1)];
    entry[1] = 0; /* another graph may have its list at this address */
    __atomic_store_n(&entry[0], 0, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&area->making);
}
