/* The allocator: an allocation of 1 MiB or more has its own chunk; smaller blocks share chunks
 * of 2 MiB. */
#include "memory/memory.h"

#include "base/aperture.h"
#include "base/device.h"
#include "base/sync_memops.h"
#include "exchange/request.h"
#include "exchange/share.h"
#include "exchange/wait.h"
#include "memory/slab.h"
#include "memory/views.h"

static void describe(const struct tsr_chunk *chunk, uint64_t start, uint64_t bytes,
                     struct tsr_span *span) {
  *span = (struct tsr_span){.context = chunk->context,
                            .kind = chunk->kind,
                            .address = tsr_aperture_base + chunk->offset + start,
                            .bytes = bytes,
                            .alias = chunk->alias + start,
                            .sort = chunk->sort,
                            .id = chunk->id << TSR_ALLOCATION_BITS | start / TSR_SLAB_UNIT_BYTES};
}

static bool find_locked(uint64_t address, struct tsr_span *span) {
  const struct tsr_chunk *chunk = tsr_chunk_at(address);
  if (!chunk) return false;
  const uint64_t offset = address - tsr_aperture_base - chunk->offset;
  if (chunk->views) return tsr_views_find(chunk, offset, span);
  uint64_t start = chunk->start, bytes = chunk->requested_bytes;
  if (chunk->slab && !tsr_slab_find(chunk->slab, offset, &start, &bytes)) return false;
  if (offset < start || offset - start >= bytes) return false; /* in the block's padding */
  describe(chunk, start, bytes, span);
  return true;
}

bool tsr_memory_find(uint64_t address, struct tsr_span *span) {
  if (!tsr_aperture_holds(address)) return false;
  pthread_mutex_lock(&tsr_memory_lock);
  const bool found = find_locked(address, span);
  pthread_mutex_unlock(&tsr_memory_lock);
  return found;
}

bool tsr_memory_is_synchronous(uint64_t address) {
  struct tsr_span span;
  return tsr_sync_memops_any() && tsr_memory_find(address, &span) &&
         tsr_sync_memops_has(span.id);
}

static uint32_t kind_of(enum tsr_use use) {
  const bool device = use == TSR_USE_DEVICE || use == TSR_USE_PHYSICAL || use == TSR_USE_GRAPH ||
                      use == TSR_USE_ARRAY;
  return device ? TESSERA_CHUNK_KIND_DEVICE : TESSERA_CHUNK_KIND_HOST;
}

static bool is_same_sort(const struct tsr_sort *a, const struct tsr_sort *b) {
  return a->use == b->use && a->host_flags == b->host_flags && a->peers == b->peers &&
         a->pool == b->pool && a->module == b->module;
}

struct small {
  uint64_t bytes;
  struct tsr_sort sort;
  uint64_t address; /* result */
};

static bool take_from(struct tsr_chunk *chunk, void *state) {
  struct small *wanted = state;
  if (!chunk->slab || !is_same_sort(&chunk->sort, &wanted->sort)) return false;
  const int64_t offset = tsr_slab_take(chunk->slab, wanted->bytes);
  if (offset < 0) return false;
  wanted->address = tsr_aperture_base + chunk->offset + (uint64_t)offset;
  return true;
}

static bool take_small(struct tsr_context *context, struct small *wanted) {
  const uint32_t kind = kind_of(wanted->sort.use);
  pthread_mutex_lock(&tsr_memory_lock);
  const bool found = tsr_chunks_each(context, kind, take_from, wanted);
  pthread_mutex_unlock(&tsr_memory_lock);
  return found;
}

static CUresult allocate_small(struct tsr_context *context, struct tsr_sort sort, uint64_t bytes,
                               uint64_t *address) {
  struct small wanted = {.bytes = bytes, .sort = sort};
  if (take_small(context, &wanted)) {
    *address = wanted.address;
    return CUDA_SUCCESS;
  }
  const struct tsr_chunk chunk = {.context = context,
                                  .kind = kind_of(sort.use),
                                  .bytes = TSR_SLAB_BYTES,
                                  .sort = sort,
                                  .slab = tsr_slab_new()};
  if (!chunk.slab) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t start = (uint64_t)tsr_slab_take(chunk.slab, bytes); /* cannot fail: it is empty */
  uint64_t offset;
  const CUresult result = tsr_chunk_create(&chunk, &offset);
  if (result != CUDA_SUCCESS) {
    tsr_slab_free(chunk.slab);
    return result;
  }
  *address = tsr_aperture_base + offset + start;
  return CUDA_SUCCESS;
}

static bool is_empty_slab(struct tsr_chunk *chunk, void *state) {
  struct tsr_chunk **found = state;
  if (!chunk->slab || !tsr_slab_empty(chunk->slab)) return false;
  *found = chunk;
  return true;
}

/* Release one unused shared chunk; false if there is none. */
static bool trim(struct tsr_context *context) {
  struct tsr_chunk *chunk = NULL;
  pthread_mutex_lock(&tsr_memory_lock);
  for (uint32_t kind = 0; kind < 2 && !chunk; kind++)
    tsr_chunks_each(context, kind, is_empty_slab, &chunk);
  if (chunk) tsr_chunk_detach(chunk);
  pthread_mutex_unlock(&tsr_memory_lock);
  return chunk && tsr_chunk_destroy(chunk) == CUDA_SUCCESS;
}

static CUresult allocate_own(struct tsr_context *context, struct tsr_sort sort, uint64_t bytes,
                             uint64_t *address) {
  const struct tsr_chunk chunk = {.context = context,
                                  .kind = kind_of(sort.use),
                                  .bytes = bytes,
                                  .requested_bytes = bytes,
                                  .sort = sort};
  uint64_t offset;
  const CUresult result = tsr_chunk_create(&chunk, &offset);
  if (result == CUDA_SUCCESS) *address = tsr_aperture_base + offset;
  return result;
}

/* Report an allocation to a worker whose clock is modelled: it limits what launches touch to what
 * is allocated, and knows chunks only. `bytes` 0: the allocation ends. A failure makes predictions
 * less exact, and nothing else. */
static void report_allocation(struct tsr_context *context, struct tsr_sort sort, uint64_t address,
                              uint64_t bytes) {
  const bool reported = sort.use == TSR_USE_DEVICE || sort.use == TSR_USE_PINNED ||
                        sort.use == TSR_USE_MANAGED;
  if (!reported || context->device->slice.info.attributes[TESSERA_CLOCK_ATTRIBUTE] != 1) return;
  struct tsr_reply reply;
  const tessera_chunk range = {
      .offset = address - tsr_aperture_base, .bytes = bytes, .kind = kind_of(sort.use)};
  tsr_ask(context, TESSERA_MESSAGE_TYPE_ALLOCATION, &range, sizeof range, -1, &reply);
  tsr_reply_close(&reply);
}

CUresult tsr_memory_allocate(struct tsr_context *context, struct tsr_sort sort, uint64_t bytes,
                             uint64_t *address) {
  CUresult result;
  do {
    result = bytes >= TSR_OWN_CHUNK_BYTES ? allocate_own(context, sort, bytes, address)
                                          : allocate_small(context, sort, bytes, address);
  } while (result == CUDA_ERROR_OUT_OF_MEMORY && trim(context));
  if (result == CUDA_SUCCESS) report_allocation(context, sort, *address, bytes);
  return result;
}

/* The most recently freed allocations, for messages; under the memory lock. */
enum { FREED = 1024 };
static struct freed {
  uint64_t context_id, address, bytes; /* bytes 0: none */
} freed[FREED];
static size_t next_freed;

static void remember_freed(const struct tsr_span *span) {
  freed[next_freed++ % FREED] = (struct freed){
      .context_id = span->context->id, .address = span->address, .bytes = span->bytes};
}

bool tsr_memory_find_freed_locked(const struct tsr_context *context, uint64_t address,
                                  uint64_t *begin, uint64_t *bytes) {
  for (size_t i = 1; i <= FREED; i++) { /* the latest first */
    const struct freed *one = &freed[(next_freed - i) % FREED];
    if (one->context_id != context->id || address - one->address >= one->bytes) continue;
    *begin = one->address;
    *bytes = one->bytes;
    return true;
  }
  return false;
}

struct spare {
  const struct tsr_sort *sort;
  const struct tsr_chunk *except;
};

static bool is_spare(struct tsr_chunk *chunk, void *state) {
  const struct spare *wanted = state;
  return chunk != wanted->except && chunk->slab && tsr_slab_empty(chunk->slab) &&
         is_same_sort(&chunk->sort, wanted->sort);
}

static bool is_allocation_locked(uint64_t address, enum tsr_use use, struct tsr_span *span) {
  return find_locked(address, span) && span->address == address && span->sort.use == use;
}

/* Remove an allocation from the index. `*whole` is set to its chunk, if all of the chunk is free
 * now and the chunk is not worth keeping: one empty chunk is kept for the next small allocation,
 * but not in a pool, which keeps its own memory. */
static bool release_locked(uint64_t address, enum tsr_use use, struct tsr_chunk **whole) {
  struct tsr_span span;
  if (!is_allocation_locked(address, use, &span)) return false;
  struct tsr_chunk *chunk = tsr_chunk_at(address);
  remember_freed(&span);
  tsr_sync_memops_clear(span.id, span.id);
  *whole = NULL;
  if (chunk->slab) {
    tsr_slab_give(chunk->slab, address - tsr_aperture_base - chunk->offset);
    if (!tsr_slab_empty(chunk->slab)) return true;
    struct spare wanted = {.sort = &chunk->sort, .except = chunk};
    if (!chunk->sort.pool &&
        !tsr_chunks_each(chunk->context, chunk->kind, is_spare, &wanted))
      return true;
  }
  tsr_chunk_detach(chunk);
  *whole = chunk;
  return true;
}

CUresult tsr_memory_release(uint64_t address, enum tsr_use use) {
  struct tsr_chunk *whole = NULL;
  struct tsr_span span;
  pthread_mutex_lock(&tsr_memory_lock);
  const bool valid = is_allocation_locked(address, use, &span);
  pthread_mutex_unlock(&tsr_memory_lock);
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  /* Before another thread may allocate the address, and share it. */
  tsr_share_end(address);
  report_allocation(span.context, span.sort, address, 0);
  pthread_mutex_lock(&tsr_memory_lock);
  const bool released = release_locked(address, use, &whole);
  pthread_mutex_unlock(&tsr_memory_lock);
  if (!released) return CUDA_ERROR_INVALID_VALUE;
  return whole ? tsr_chunk_destroy(whole) : CUDA_SUCCESS;
}

CUresult tsr_memory_free(uint64_t address, enum tsr_use use) {
  struct tsr_span span;
  if (!tsr_memory_find(address, &span) || span.address != address || span.sort.use != use ||
      span.sort.pool)
    return CUDA_ERROR_INVALID_VALUE;
  /* Work in progress may still use the memory. */
  const CUresult waited = tsr_wait_all(span.context);
  return waited == CUDA_SUCCESS ? tsr_memory_release(address, use) : waited;
}

void tsr_memory_resize(uint64_t address, uint64_t bytes) {
  pthread_mutex_lock(&tsr_memory_lock);
  struct tsr_chunk *chunk = tsr_chunk_at(address);
  if (chunk && chunk->slab)
    tsr_slab_resize(chunk->slab, address - tsr_aperture_base - chunk->offset, bytes);
  else if (chunk)
    chunk->requested_bytes = bytes;
  struct tsr_span span;
  const bool found = find_locked(address, &span);
  pthread_mutex_unlock(&tsr_memory_lock);
  if (found) report_allocation(span.context, span.sort, address, bytes);
}
