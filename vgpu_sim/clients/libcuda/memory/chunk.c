#define _GNU_SOURCE
#include "memory/chunk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/aperture.h"
#include "config.h"
#include "base/device.h"
#include "base/sync_memops.h"
#include "memory/chunk_index.h"
#include "memory/peers.h"
#include "memory/slab.h"
#include "exchange/request.h"

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
  const uint64_t place = tsr_chunk_index_find(chunk->context->device, chunk->kind, chunk->bytes);
  const bool inserted = tsr_chunk_index_add(chunk, place);
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
  const uint64_t place = tsr_chunk_index_find_aligned(device, bytes, alignment, wanted_offset);
  const bool inserted = tsr_chunk_index_add(chunk, place);
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

static void drop(struct tsr_chunk *chunk) {
  const uint64_t first = chunk->id << TSR_ALLOCATION_BITS;
  tsr_sync_memops_clear(first, first + (1 << TSR_ALLOCATION_BITS) - 1);
  unmap_chunk(chunk, chunk->alias);
  tsr_slab_free(chunk->slab);
  free(chunk);
}

void tsr_chunks_drop(struct tsr_context *context) { tsr_chunk_index_remove(context, drop); }
