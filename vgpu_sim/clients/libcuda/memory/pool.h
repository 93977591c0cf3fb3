/* Memory pools: blocks of memory that are freed and allocated again in the order of streams. */
#ifndef TSR_POOL_H
#define TSR_POOL_H

#include "memory/memory.h"

extern pthread_mutex_t tsr_pool_lock;

/* Return the default pool of a device or, for ordinal -1, of the host; under the pool lock. NULL:
 * out of memory. */
struct tsr_pool *tsr_pool_default(int ordinal, CUmemAllocationType type);

/* Return the pool from which cuMemAllocAsync allocates, in the same way. */
struct tsr_pool *tsr_pool_current(int ordinal, CUmemAllocationType type);

/* Make a pool the current one of its device and type; under the pool lock. */
void tsr_pool_make_current(struct tsr_pool *chosen);

/* Create a pool; under the pool lock. */
struct tsr_pool *tsr_pool_new(const CUmemPoolProps *props, int device);

/* Remove a pool from the list and free it, if it is destroyed and empty; under the pool lock. */
void tsr_pool_finish(struct tsr_pool *pool);

/* Allocate memory that work of the stream may use from now on. */
CUresult tsr_pool_allocate(struct tsr_pool *pool, struct tsr_context *context, uint32_t stream,
                           uint64_t bytes, uint64_t *address);

/* Free a pool's memory once the stream's work up to now is done; INVALID_VALUE if no pool has an
 * allocation that begins at this address. With `context` NULL all work is known to be done. */
CUresult tsr_pool_free(uint64_t address, struct tsr_context *context, uint32_t stream);

/* Release unused memory of a pool, or of all pools (NULL), down to `keep_bytes` of reserved memory
 * per pool; only memory of `context`, unless that is NULL. Returns whether any was released. */
bool tsr_pool_release(struct tsr_pool *pool, struct tsr_context *context, uint64_t keep_bytes);

/* Release what is above the pools' release thresholds, after a wait. */
void tsr_pools_trim(struct tsr_context *context);

/* Forget all blocks of a context that ends. */
void tsr_pools_drop(struct tsr_context *context);

#endif
