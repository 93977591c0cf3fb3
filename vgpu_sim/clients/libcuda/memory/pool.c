/* Blocks of memory pools. A freed block keeps the place in a stream at which it was freed. The
 * same stream may allocate it again at once, because its later work follows; another stream may
 * when that place has been reached, or by waiting for it. A block is memory of one context, and
 * only this context's process ever sees it again. */
#include "memory/pool.h"

#include <stdlib.h>

#include "base/sync_memops.h"
#include "exchange/ring.h"
#include "exchange/share.h"
#include "exchange/wait.h"
#include "memory/graph_memory.h"

pthread_mutex_t tsr_pool_lock = PTHREAD_MUTEX_INITIALIZER;

struct tsr_block {
  struct tsr_block *next; /* in its bucket, or among its pool's free blocks */
  struct tsr_pool *pool;
  struct tsr_context *context;
  uint64_t address, capacity_bytes;
  uint32_t stream; /* where it was freed, valid while it is free */
  uint64_t value;
};

/* Allocated blocks by address; guarded by the pool lock, as everything below. */
enum { BUCKETS = 4096 };
static struct tsr_block *buckets[BUCKETS];
static struct tsr_pool *pools;
static _Atomic uint64_t free_count; /* over all pools */

static struct tsr_block **bucket_of(uint64_t address) {
  return &buckets[(address / 256 * UINT64_C(0x9E3779B97F4A7C15)) >> 52];
}

/* Round up so that blocks can be used again for similar sizes: to a sixteenth of the power of two,
 * or to whole chunks. */
static uint64_t capacity_for(uint64_t bytes) {
  uint64_t unit = 256;
  if (bytes >= TSR_OWN_CHUNK_BYTES)
    unit = TESSERA_CHUNK_ALIGN_BYTES;
  else
    while (unit * 16 < bytes) unit *= 2;
  return (bytes + unit - 1) / unit * unit;
}

static enum tsr_use use_of(const struct tsr_pool *pool) {
  if (pool->props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) return TSR_USE_MANAGED;
  return pool->device < 0 ? TSR_USE_PINNED : TSR_USE_DEVICE;
}

struct tsr_pool *tsr_pool_new(const CUmemPoolProps *props, int device) {
  struct tsr_pool *pool = tsr_object_new(TSR_POOL);
  if (!pool) return NULL;
  pool->props = *props;
  pool->device = device;
  for (int i = 0; i < 3; i++) pool->reuse[i] = 1;
  pool->handle = tsr_object_publish(TSR_POOL, pool);
  pool->next = pools;
  pools = pool;
  return pool;
}

void tsr_pool_finish(struct tsr_pool *pool) {
  if (!pool->destroyed || pool->block_count) return;
  struct tsr_pool **link = &pools;
  while (*link != pool) link = &(*link)->next;
  *link = pool->next;
  tsr_object_free(TSR_POOL, pool);
}

struct tsr_pool *tsr_pool_default(int ordinal, CUmemAllocationType type) {
  for (struct tsr_pool *pool = pools; pool; pool = pool->next)
    if (pool->is_default && pool->device == ordinal && pool->props.allocType == type) return pool;
  const CUmemPoolProps props = {
      .allocType = type,
      .location = {.type = ordinal < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                   .id = ordinal < 0 ? 0 : ordinal}};
  struct tsr_pool *pool = tsr_pool_new(&props, ordinal);
  if (pool) pool->is_default = true;
  return pool;
}

struct tsr_pool *tsr_pool_current(int ordinal, CUmemAllocationType type) {
  for (struct tsr_pool *pool = pools; pool; pool = pool->next)
    if (pool->is_current && pool->device == ordinal && pool->props.allocType == type) return pool;
  return tsr_pool_default(ordinal, type);
}

void tsr_pool_make_current(struct tsr_pool *chosen) {
  for (struct tsr_pool *pool = pools; pool; pool = pool->next)
    if (pool->device == chosen->device && pool->props.allocType == chosen->props.allocType)
      pool->is_current = pool == chosen;
}

/* Keep a pool, which was found without the lock, from ending while a thread allocates from it;
 * false: it has ended. */
static bool hold(const struct tsr_pool *wanted) {
  pthread_mutex_lock(&tsr_pool_lock);
  struct tsr_pool *pool = pools;
  while (pool && pool != wanted) pool = pool->next;
  if (pool) pool->block_count++;
  pthread_mutex_unlock(&tsr_pool_lock);
  return pool != NULL;
}

static void let_go(struct tsr_pool *pool) {
  pthread_mutex_lock(&tsr_pool_lock);
  pool->block_count--;
  tsr_pool_finish(pool);
  pthread_mutex_unlock(&tsr_pool_lock);
}

static void count_used(struct tsr_pool *pool, uint64_t bytes) {
  pool->used_bytes += bytes;
  if (pool->used_bytes > pool->used_high_bytes) pool->used_high_bytes = pool->used_bytes;
}

static void add_to_bucket(struct tsr_block *block) {
  struct tsr_block **bucket = bucket_of(block->address);
  block->next = *bucket;
  *bucket = block;
  count_used(block->pool, block->capacity_bytes);
}

/* Remove the allocated block that begins at an address from its bucket. */
static struct tsr_block *remove_from_bucket(uint64_t address) {
  for (struct tsr_block **link = bucket_of(address); *link; link = &(*link)->next) {
    struct tsr_block *block = *link;
    if (block->address != address) continue;
    *link = block->next;
    block->pool->used_bytes -= block->capacity_bytes;
    return block;
  }
  return NULL;
}

static bool is_done(const struct tsr_block *block) {
  return tsr_reached(block->context, block->stream, block->value);
}

enum reuse { REUSE_NOW, REUSE_AFTER_WAIT };

static bool may_take(const struct tsr_block *block, uint32_t stream, enum reuse reuse) {
  if (reuse == REUSE_AFTER_WAIT || block->stream == stream) return true;
  const int opportunistic = CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC - 1;
  return block->pool->reuse[opportunistic] && is_done(block);
}

/* Remove the free block of the best size that the stream may use, or return NULL. */
static struct tsr_block *take(struct tsr_pool *pool, const struct tsr_context *context,
                              uint32_t stream, uint64_t capacity_bytes, enum reuse reuse) {
  /* A large block may be a quarter larger than required. */
  const uint64_t most = capacity_bytes < TSR_OWN_CHUNK_BYTES ? capacity_bytes
                                                             : capacity_bytes + capacity_bytes / 4;
  struct tsr_block **best = NULL;
  for (struct tsr_block **link = &pool->free_blocks; *link; link = &(*link)->next) {
    const struct tsr_block *block = *link;
    if (block->context != context || block->capacity_bytes < capacity_bytes ||
        block->capacity_bytes > most || !may_take(block, stream, reuse))
      continue;
    if (best && (*best)->capacity_bytes <= block->capacity_bytes) continue;
    best = link;
    if (block->capacity_bytes == capacity_bytes) break;
  }
  if (!best) return NULL;
  struct tsr_block *block = *best;
  *best = block->next;
  atomic_fetch_sub(&free_count, 1);
  return block;
}

/* Have the stream's next request wait until the block is free. */
static CUresult wait_in_stream(const struct tsr_block *block, uint32_t stream) {
  const tessera_wait wait = {.stream = block->stream, .value = block->value};
  struct tsr_request request;
  tsr_ring_lock(&request, block->context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_NOP, 0, &wait);
  if (result == CUDA_SUCCESS) tsr_ring_commit(&request);
  return result;
}

/* Put a block into its pool's list, free once the request of its stream is done; under the lock. */
static void add_to_free(struct tsr_block *block) {
  block->next = block->pool->free_blocks;
  block->pool->free_blocks = block;
  atomic_fetch_add(&free_count, 1);
}

/* Return a free block of the pool that the stream may use from now on, or NULL. */
static struct tsr_block *reuse_block(struct tsr_pool *pool, struct tsr_context *context,
                                     uint32_t stream, uint64_t capacity_bytes, enum reuse reuse) {
  if (!atomic_load_explicit(&free_count, memory_order_relaxed)) return NULL;
  const int internal = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES - 1;
  pthread_mutex_lock(&tsr_pool_lock);
  struct tsr_block *block = NULL;
  if (reuse == REUSE_NOW || pool->reuse[internal])
    block = take(pool, context, stream, capacity_bytes, reuse);
  if (block) add_to_bucket(block);
  pthread_mutex_unlock(&tsr_pool_lock);
  if (!block || reuse == REUSE_NOW || wait_in_stream(block, stream) == CUDA_SUCCESS) return block;
  pthread_mutex_lock(&tsr_pool_lock);
  add_to_free(remove_from_bucket(block->address));
  pthread_mutex_unlock(&tsr_pool_lock);
  return NULL;
}

/* Reserve memory for a new block. */
static CUresult grow(struct tsr_pool *pool, struct tsr_context *context, uint64_t capacity_bytes,
                     struct tsr_block **made) {
  struct tsr_block *block = malloc(sizeof *block);
  if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
  *block =
      (struct tsr_block){.pool = pool, .context = context, .capacity_bytes = capacity_bytes};
  pthread_mutex_lock(&tsr_pool_lock);
  const uint64_t most = pool->props.maxSize ? pool->props.maxSize : UINT64_MAX;
  const bool fits = capacity_bytes <= most && pool->reserved_bytes <= most - capacity_bytes;
  if (fits) {
    pool->reserved_bytes += capacity_bytes;
    pool->block_count++;
  }
  pthread_mutex_unlock(&tsr_pool_lock);
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  const struct tsr_sort sort = {.use = use_of(pool), .pool = pool->handle};
  if (fits) result = tsr_memory_allocate(context, sort, capacity_bytes, &block->address);
  pthread_mutex_lock(&tsr_pool_lock);
  if (result == CUDA_SUCCESS) {
    add_to_bucket(block);
    if (pool->reserved_bytes > pool->reserved_high_bytes)
      pool->reserved_high_bytes = pool->reserved_bytes;
  } else if (fits) {
    pool->reserved_bytes -= capacity_bytes;
    pool->block_count--;
  }
  pthread_mutex_unlock(&tsr_pool_lock);
  if (result == CUDA_SUCCESS)
    *made = block;
  else
    free(block);
  return result;
}

static CUresult allocate(struct tsr_pool *pool, struct tsr_context *context, uint32_t stream,
                         uint64_t bytes, uint64_t *address) {
  if (bytes > TESSERA_DEVICE_BYTES) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t capacity_bytes = capacity_for(bytes);
  struct tsr_block *block = reuse_block(pool, context, stream, capacity_bytes, REUSE_NOW);
  CUresult result = CUDA_SUCCESS;
  if (!block) result = grow(pool, context, capacity_bytes, &block);
  /* As in CUDA, streams wait for each other only if there is no other memory. */
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    block = reuse_block(pool, context, stream, capacity_bytes, REUSE_AFTER_WAIT);
    if (block) result = CUDA_SUCCESS;
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY && tsr_graph_memory_trim(NULL))
    result = grow(pool, context, capacity_bytes, &block);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && atomic_load(&free_count)) {
    /* Other sizes have been freed, but perhaps not in time. */
    result = tsr_wait_all(context);
    if (result != CUDA_SUCCESS) return result;
    tsr_pool_release(NULL, NULL, 0);
    result = grow(pool, context, capacity_bytes, &block);
  }
  if (result != CUDA_SUCCESS) return result;
  *address = block->address;
  tsr_memory_resize(block->address, bytes);
  return CUDA_SUCCESS;
}

CUresult tsr_pool_allocate(struct tsr_pool *pool, struct tsr_context *context, uint32_t stream,
                           uint64_t bytes, uint64_t *address) {
  if (pool->imported || !hold(pool)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = allocate(pool, context, stream, bytes, address);
  let_go(pool);
  return result;
}

/* Enqueue a request after which all earlier work of the stream is done, unless it is done
 * already. Sets the request's value, or 0. */
static CUresult mark(struct tsr_context *context, uint32_t stream, uint64_t *value) {
  *value = 0;
  if (tsr_stream_open(context, stream)) return CUDA_SUCCESS;
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_NOP, 0, NULL);
  if (result == CUDA_SUCCESS) *value = tsr_ring_commit(&request);
  return result;
}

CUresult tsr_pool_free(uint64_t address, struct tsr_context *context, uint32_t stream) {
  struct tsr_span span;
  if (!tsr_memory_find(address, &span) || span.address != address || !span.sort.pool)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t value = 0;
  if (context) {
    /* Streams of another context are on another timeline. */
    const CUresult result = span.context == context ? mark(context, stream, &value)
                                                    : tsr_wait_stream_open(context, stream);
    if (result != CUDA_SUCCESS) return result;
    if (span.context != context) stream = TSR_LEGACY_STREAM;
  }
  tsr_share_end(address); /* before another thread may allocate the block, and share it */
  pthread_mutex_lock(&tsr_pool_lock);
  struct tsr_block *block = remove_from_bucket(address);
  if (block) {
    block->stream = stream;
    block->value = value;
    add_to_free(block);
    tsr_sync_memops_clear(span.id, span.id);
    tsr_memory_resize(address, 0);
  }
  pthread_mutex_unlock(&tsr_pool_lock);
  return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Move the pool's free blocks that may be released to `*list`, the oldest first, until at most
 * `keep_bytes` are reserved. */
static void collect(struct tsr_pool *pool, const struct tsr_context *context, uint64_t keep_bytes,
                    struct tsr_block **list) {
  for (struct tsr_block **link = &pool->free_blocks; *link;) {
    struct tsr_block *block = *link;
    if (pool->reserved_bytes <= keep_bytes) return;
    if ((context && block->context != context) || !is_done(block)) {
      link = &block->next;
      continue;
    }
    *link = block->next;
    atomic_fetch_sub(&free_count, 1);
    pool->reserved_bytes -= block->capacity_bytes;
    pool->block_count--;
    block->next = *list;
    *list = block;
  }
}

static void return_memory(const struct tsr_block *block, enum tsr_use use) {
  tsr_memory_resize(block->address, block->capacity_bytes);
  tsr_memory_release(block->address, use);
}

/* Release blocks of one pool or all, down to `keep_bytes`, or to the thresholds. */
static bool release(struct tsr_pool *only, struct tsr_context *context, uint64_t keep_bytes,
                    bool to_threshold) {
  bool any = false;
  if (!atomic_load_explicit(&free_count, memory_order_relaxed)) return false;
  pthread_mutex_lock(&tsr_pool_lock);
  for (struct tsr_pool *pool = pools, *next; pool; pool = next) {
    next = pool->next;
    if (only && pool != only) continue;
    struct tsr_block *list = NULL;
    collect(pool, context, to_threshold && !pool->destroyed ? pool->release_threshold : keep_bytes,
            &list);
    while (list) {
      struct tsr_block *block = list;
      list = block->next;
      return_memory(block, use_of(pool));
      free(block);
      any = true;
    }
    tsr_pool_finish(pool);
  }
  pthread_mutex_unlock(&tsr_pool_lock);
  return any;
}

bool tsr_pool_release(struct tsr_pool *pool, struct tsr_context *context, uint64_t keep_bytes) {
  return release(pool, context, keep_bytes, false);
}

void tsr_pools_trim(struct tsr_context *context) { release(NULL, context, 0, true); }

/* Drop the blocks of a list that belong to the context. */
static void drop_from(struct tsr_block **link, const struct tsr_context *context, bool is_free) {
  while (*link) {
    struct tsr_block *block = *link;
    if (block->context != context) {
      link = &block->next;
      continue;
    }
    *link = block->next;
    block->pool->reserved_bytes -= block->capacity_bytes;
    block->pool->block_count--;
    if (is_free)
      atomic_fetch_sub(&free_count, 1);
    else
      block->pool->used_bytes -= block->capacity_bytes;
    free(block);
  }
}

void tsr_pools_drop(struct tsr_context *context) {
  pthread_mutex_lock(&tsr_pool_lock);
  for (int i = 0; i < BUCKETS; i++) drop_from(&buckets[i], context, false);
  for (struct tsr_pool *pool = pools, *next; pool; pool = next) {
    next = pool->next;
    drop_from(&pool->free_blocks, context, true);
    tsr_pool_finish(pool);
  }
  pthread_mutex_unlock(&tsr_pool_lock);
}
