#define _GNU_SOURCE
#include "memory/chunk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/aperture.h"
#include "config.h"
#include "base/device.h"
#include "memory/peers.h"
#include "memory/slab.h"
#include "exchange/request.h"

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

static uint64_t find_offset(const struct tsr_device *device, uint32_t kind, uint64_t bytes) {
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

/* Reserve a place in the index; the chunk has no memory yet. */
static bool insert(struct tsr_chunk *chunk, uint64_t offset) {
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

static void *map_at(uint64_t address, uint64_t bytes, int fd) {
  void *mapped = mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | (address ? MAP_FIXED : 0), fd, 0);
  if (mapped == MAP_FAILED) return NULL;
  /* A forked child cannot use the memory, and must not keep it alive. */
  madvise(mapped, bytes, MADV_DONTFORK);
  return mapped;
}

/* Pinned memory is mapped at its own address; device memory at an alias, so that a host
 * dereference of a device pointer faults as it does on hardware. */
static uint8_t *map_chunk(const struct tsr_chunk *chunk, int fd) {
  if (fd < 0 || lseek(fd, 0, SEEK_END) < (off_t)chunk->bytes) return NULL;
  const uint64_t own = tsr_aperture_base + chunk->offset;
  if (chunk->kind == TESSERA_CHUNK_KIND_HOST) return map_at(own, chunk->bytes, fd);
  if (tsr_config()->relaxed && !map_at(own, chunk->bytes, fd)) return NULL;
  return map_at(0, chunk->bytes, fd);
}

static void unmap_chunk(const struct tsr_chunk *chunk, uint8_t *alias) {
  const uint64_t own = tsr_aperture_base + chunk->offset;
  if (chunk->kind == TESSERA_CHUNK_KIND_HOST || tsr_config()->relaxed)
    tsr_aperture_vacate(own, chunk->bytes);
  if (alias && chunk->kind == TESSERA_CHUNK_KIND_DEVICE) munmap(alias, chunk->bytes);
}

static CUresult ask_to_free(const struct tsr_chunk *chunk) {
  struct tsr_reply reply;
  const tessera_chunk wanted = {
      .offset = chunk->offset, .bytes = chunk->bytes, .kind = chunk->kind};
  const CUresult result = tsr_ask(chunk->context, TESSERA_MESSAGE_TYPE_CHUNK_FREE, &wanted,
                                  sizeof wanted, -1, &reply);
  tsr_reply_close(&reply);
  return result;
}

/* Without the memory lock, because populating gigabytes takes a while. */
static CUresult obtain(struct tsr_chunk *chunk, uint8_t **alias) {
  struct tsr_reply reply;
  const tessera_chunk wanted = {
      .offset = chunk->offset, .bytes = chunk->bytes, .kind = chunk->kind};
  CUresult result;
  if (chunk->shared) {
    const tessera_share_open opened = {.memory = *chunk->shared, .offset = chunk->offset};
    result = tsr_ask(chunk->context, TESSERA_MESSAGE_TYPE_SHARE_OPEN, &opened, sizeof opened, -1,
                     &reply);
    chunk->shared = NULL;
  } else {
    result = tsr_ask(chunk->context, TESSERA_MESSAGE_TYPE_CHUNK_ALLOCATE, &wanted, sizeof wanted, -1,
                     &reply);
  }
  if (result == CUDA_SUCCESS) {
    *alias = map_chunk(chunk, reply.fds[0]);
    if (!*alias) {
      ask_to_free(chunk);
      unmap_chunk(chunk, NULL);
      result = CUDA_ERROR_OPERATING_SYSTEM;
    }
  }
  tsr_reply_close(&reply);
  return result;
}

/* Let other contexts access a new chunk. If they cannot, the chunk is destroyed, but not its slab. */
static CUresult open_to_peers(const struct tsr_chunk *copy) {
  const CUresult result = tsr_peers_open(copy);
  if (result == CUDA_SUCCESS) return result;
  pthread_mutex_lock(&tsr_memory_lock);
  struct tsr_chunk *chunk = tsr_chunk_at(tsr_aperture_base + copy->offset);
  if (chunk && chunk->id != copy->id) chunk = NULL;
  if (chunk) tsr_chunk_detach(chunk);
  pthread_mutex_unlock(&tsr_memory_lock);
  if (!chunk) return CUDA_SUCCESS; /* its context has ended, and with it all of its memory */
  chunk->slab = NULL;
  tsr_chunk_destroy(chunk);
  return result;
}

CUresult tsr_chunk_create(const struct tsr_chunk *wanted, uint64_t *offset) {
  if (wanted->bytes > TESSERA_DEVICE_BYTES) return CUDA_ERROR_OUT_OF_MEMORY;
  struct tsr_chunk *chunk = malloc(sizeof *chunk);
  if (!chunk) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t unit = TESSERA_CHUNK_ALIGN_BYTES;
  *chunk = *wanted;
  chunk->bytes = (wanted->bytes + unit - 1) / unit * unit;
  pthread_mutex_lock(&tsr_memory_lock);
  const bool inserted =
      insert(chunk, find_offset(chunk->context->device, chunk->kind, chunk->bytes));
  pthread_mutex_unlock(&tsr_memory_lock);
  if (!inserted) {
    free(chunk);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  uint8_t *alias = NULL;
  CUresult result = obtain(chunk, &alias);
  *offset = chunk->offset;
  pthread_mutex_lock(&tsr_memory_lock);
  if (result == CUDA_SUCCESS && !tsr_object_lives(chunk->context)) {
    result = CUDA_ERROR_CONTEXT_IS_DESTROYED; /* by another thread, meanwhile */
    unmap_chunk(chunk, alias);
  }
  if (result == CUDA_SUCCESS) {
    chunk->alias = alias;
  } else {
    tsr_chunk_detach(chunk);
    free(chunk);
  }
  const struct tsr_chunk copy = result == CUDA_SUCCESS ? *chunk : *wanted;
  pthread_mutex_unlock(&tsr_memory_lock);
  return result == CUDA_SUCCESS ? open_to_peers(&copy) : result;
}

/* Return `wanted` if it is free, else the offset of a free range, or 0. */
static uint64_t find_aligned(const struct tsr_device *device, uint64_t bytes, uint64_t alignment,
                             uint64_t wanted) {
  const uint64_t start = device->window + TESSERA_DEVICE_OFFSET;
  const uint64_t end = start + TESSERA_DEVICE_BYTES;
  if (wanted % alignment == 0 && wanted >= start && wanted < end && end - wanted >= bytes &&
      gap(wanted, wanted + bytes, bytes) == wanted)
    return wanted;
  if (alignment > TESSERA_DEVICE_BYTES || bytes > TESSERA_DEVICE_BYTES - alignment) return 0;
  const uint64_t found =
      find_offset(device, TESSERA_CHUNK_KIND_DEVICE, bytes + alignment - TESSERA_CHUNK_ALIGN_BYTES);
  return (found + alignment - 1) / alignment * alignment;
}

CUresult tsr_chunk_reserve(const struct tsr_device *device, uint64_t bytes, uint64_t alignment,
                           uint64_t wanted_offset, struct tsr_views *views, uint64_t *offset) {
  struct tsr_chunk *chunk = malloc(sizeof *chunk);
  if (!chunk) return CUDA_ERROR_OUT_OF_MEMORY;
  *chunk = (struct tsr_chunk){.bytes = bytes,
                              .kind = TESSERA_CHUNK_KIND_DEVICE,
                              .sort = {.use = TSR_USE_RESERVED},
                              .views = views};
  /* In this range the client maps the views, at the same distances as the device does. */
  void *alias = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (alias == MAP_FAILED) {
    free(chunk);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  chunk->alias = alias;
  pthread_mutex_lock(&tsr_memory_lock);
  const bool inserted = insert(chunk, find_aligned(device, bytes, alignment, wanted_offset));
  *offset = chunk->offset;
  pthread_mutex_unlock(&tsr_memory_lock);
  if (inserted) return CUDA_SUCCESS;
  munmap(alias, bytes);
  free(chunk);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_chunk_destroy(struct tsr_chunk *chunk) {
  tsr_peers_close(chunk->offset);
  unmap_chunk(chunk, chunk->alias);
  const CUresult result = ask_to_free(chunk);
  tsr_slab_free(chunk->slab);
  free(chunk);
  return result;
}

void tsr_chunks_drop(struct tsr_context *context) {
  pthread_mutex_lock(&tsr_memory_lock);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    struct tsr_chunk *chunk = chunks[i];
    /* A chunk under construction is removed by the thread that constructs it. */
    if (chunk->context != context || !chunk->alias) {
      chunks[kept++] = chunk;
      continue;
    }
    unmap_chunk(chunk, chunk->alias);
    tsr_slab_free(chunk->slab);
    free(chunk);
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
