#include "memory/chunk_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/aperture.h"

pthread_mutex_t tsr_memory_lock = PTHREAD_MUTEX_INITIALIZER;

/* All chunks of the process, by offset. An offset is unique in the process and GPU, so no two
 * contexts ever own the same address. */
static struct tsr_chunk **chunks;
static size_t count, capacity;

/* Where the next search begins, per GPU and kind. An address is reused as late as possible, so
 * that a use after free faults instead of accessing another allocation. */
static uint64_t cursor[TESSERA_MAX_GPUS][2];
static uint64_t next_id = 1;

static size_t first_at_or_after(uint64_t offset) {
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (chunks[middle]->offset < offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Return the first gap of `bytes` in [from, end), or 0. */
static uint64_t gap(uint64_t from, uint64_t end, uint64_t bytes) {
  size_t i = first_at_or_after(from);
  if (i > 0 && chunks[i - 1]->offset + chunks[i - 1]->bytes > from)
    from = chunks[i - 1]->offset + chunks[i - 1]->bytes;
  for (; from <= end && end - from >= bytes; i++) {
    if (i == count || chunks[i]->offset - from >= bytes) return from;
    from = chunks[i]->offset + chunks[i]->bytes;
  }
  return 0;
}

uint64_t tsr_chunk_index_find(const struct tsr_device *device, uint32_t kind, uint64_t bytes) {
  const bool host = kind == TESSERA_CHUNK_KIND_HOST;
  const uint64_t start = device->window + (host ? TESSERA_HOST_OFFSET : TESSERA_DEVICE_OFFSET);
  const uint64_t end = start + (host ? TESSERA_HOST_BYTES : TESSERA_DEVICE_BYTES);
  uint64_t *next = &cursor[device->slice.info.gpu_index][kind];
  if (*next < start || *next >= end) *next = start;
  uint64_t found = gap(*next, end, bytes);
  if (!found) found = gap(start, end, bytes);
  if (found) *next = found + bytes;
  return found;
}

static bool make_room(void) {
  if (count == capacity) {
    const size_t wanted = capacity ? 2 * capacity : 64;
    struct tsr_chunk **grown = realloc(chunks, wanted * sizeof *grown);
    if (!grown) return false;
    chunks = grown;
    capacity = wanted;
  }
  return true;
}

bool tsr_chunk_index_add(struct tsr_chunk *chunk, uint64_t offset) {
  if (!offset || !make_room()) return false;
  chunk->offset = offset;
  chunk->id = next_id++;
  const size_t place = first_at_or_after(chunk->offset);
  memmove(&chunks[place + 1], &chunks[place], (count - place) * sizeof *chunks);
  chunks[place] = chunk;
  count++;
  return true;
}

void tsr_chunk_detach(struct tsr_chunk *chunk) {
  const size_t place = first_at_or_after(chunk->offset);
  if (place == count || chunks[place] != chunk) return;
  count--;
  memmove(&chunks[place], &chunks[place + 1], (count - place) * sizeof *chunks);
}

struct tsr_chunk *tsr_chunk_at(uint64_t address) {
  if (!tsr_aperture_holds(address)) return NULL;
  const uint64_t offset = address - tsr_aperture_base;
  const size_t after = first_at_or_after(offset + 1);
  if (after == 0) return NULL;
  struct tsr_chunk *chunk = chunks[after - 1];
  return offset - chunk->offset < chunk->bytes && chunk->alias ? chunk : NULL;
}

uint64_t tsr_chunk_index_find_aligned(const struct tsr_device *device, uint64_t bytes,
                                      uint64_t alignment, uint64_t wanted) {
  const uint64_t start = device->window + TESSERA_DEVICE_OFFSET;
  const uint64_t end = start + TESSERA_DEVICE_BYTES;
  if (wanted % alignment == 0 && wanted >= start && wanted < end && end - wanted >= bytes &&
      gap(wanted, wanted + bytes, bytes) == wanted)
    return wanted;
  if (alignment > TESSERA_DEVICE_BYTES || bytes > TESSERA_DEVICE_BYTES - alignment) return 0;
  const uint64_t found =
      tsr_chunk_index_find(device, TESSERA_CHUNK_KIND_DEVICE, bytes + alignment - TESSERA_CHUNK_ALIGN_BYTES);
  return (found + alignment - 1) / alignment * alignment;
}

void tsr_chunk_index_remove(const struct tsr_context *context, void (*removed)(struct tsr_chunk *)) {
  pthread_mutex_lock(&tsr_memory_lock);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    struct tsr_chunk *chunk = chunks[i];
    /* A chunk under construction is removed by the thread that constructs it. */
    if (chunk->context != context || !chunk->alias)
      chunks[kept++] = chunk;
    else
      removed(chunk);
  }
  count = kept;
  pthread_mutex_unlock(&tsr_memory_lock);
}

int64_t tsr_chunks_copy(struct tsr_chunk **copies) {
  int64_t copied = 0;
  pthread_mutex_lock(&tsr_memory_lock);
  *copies = malloc((count ? count : 1) * sizeof **copies);
  for (size_t i = 0; i < count && *copies; i++)
    if (chunks[i]->alias && !chunks[i]->views) (*copies)[copied++] = *chunks[i];
  pthread_mutex_unlock(&tsr_memory_lock);
  return *copies ? copied : -1;
}

bool tsr_chunks_each(struct tsr_context *context, uint32_t kind,
                     bool (*visit)(struct tsr_chunk *, void *), void *state) {
  for (size_t i = 0; i < count; i++) {
    struct tsr_chunk *chunk = chunks[i];
    if (chunk->context == context && chunk->kind == kind && chunk->alias && visit(chunk, state))
      return true;
  }
  return false;
}
