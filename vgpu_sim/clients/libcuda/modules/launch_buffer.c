#include "modules/launch_buffer.h"

#include <string.h>

#include "exchange/ring_copy.h"
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

/* Return the entry of which a word has a value, or NULL. */
static uint64_t *find_entry(uint64_t *words, uint32_t word, uint64_t value) {
  const uint64_t count = count_of(words);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t *entry = &words[ENTRIES + ENTRY_WORDS * i];
    if (entry[word] == value) return entry;
  }
  return NULL;
}

CUresult tsr_launch_buffer_publish(struct tsr_context *context, uint64_t graph, bool of_host,
                                   uint64_t list, uint32_t slots) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->making);
  CUresult result = area->launch_buffer == 0 ? make(context) : CUDA_SUCCESS;
  uint64_t *const words = result == CUDA_SUCCESS ? words_of(area) : NULL;
  if (result == CUDA_SUCCESS && !words) result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (result == CUDA_SUCCESS) {
    uint64_t *entry = find_entry(words, 0, 0);
    const uint64_t count = count_of(words);
    if (!entry && count < MOST_GRAPHS) {
      entry = &words[ENTRIES + ENTRY_WORDS * count];
      words[GRAPH_COUNT] = count + 1;
    }
    if (entry) {
      entry[1] = list;
      entry[2] = slots;
      __atomic_store_n(&entry[0], of_host ? graph | OF_HOST : graph, __ATOMIC_RELEASE);
    } else {
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  pthread_mutex_unlock(&area->making);
  return result;
}

/* Write the handle of the entry of which a word has a value. */
static void change(struct tsr_context *context, uint32_t word, uint64_t value, uint64_t handle) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->making);
  uint64_t *const words = area->launch_buffer ? words_of(area) : NULL;
  uint64_t *entry = words ? find_entry(words, word, value) : NULL;
  if (entry) __atomic_store_n(&entry[0], handle, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&area->making);
}

void tsr_launch_buffer_retire(struct tsr_context *context, uint64_t graph) {
  change(context, 0, graph, graph | RETIRED);
  change(context, 0, graph | OF_HOST, graph | OF_HOST | RETIRED);
}

void tsr_launch_buffer_forget(struct tsr_context *context, uint64_t list) {
  change(context, 1, list, 0);
}
