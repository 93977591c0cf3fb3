/* Device and pinned memory: chunks of the aperture, and the allocations in them. */
#ifndef TSR_CHUNK_H
#define TSR_CHUNK_H

#include "base/objects.h"

struct tsr_slab;
struct tsr_views;

/* What memory is used for. Only allocations of one sort share a chunk. */
enum tsr_use {
  TSR_USE_DEVICE,
  TSR_USE_PINNED,
  TSR_USE_MANAGED,
  TSR_USE_PHYSICAL, /* memory of cuMemCreate, which programs access through views only */
  TSR_USE_GRAPH,    /* memory of a graph's allocation node, which only the graph releases */
  TSR_USE_REGISTERED, /* memory that replaces pages of the program: registered/registered.h */
  TSR_USE_EVENTS,   /* the table of interprocess events: event_tables/event_table.h */
  TSR_USE_ARRAY,    /* arrays, and descriptors of textures: only their functions free it */
  TSR_USE_OPENED,   /* memory of another context: sharing/opened.h */
  TSR_USE_RESERVED, /* addresses of cuMemAddressReserve: see memory/views.h */
};

struct tsr_sort {
  enum tsr_use use;
  uint32_t host_flags;
  uint32_t peers; /* other devices that access the memory from its allocation on, as bits */
  uint64_t pool; /* handle of the memory pool that owns the memory, or 0 */
  bool module;   /* of a module's managed variables, which only the module releases */
};

struct tsr_chunk {
  struct tsr_context *context;
  uint64_t offset; /* in the aperture */
  uint64_t bytes;  /* a multiple of TESSERA_CHUNK_ALIGN_BYTES */
  uint32_t kind;   /* TESSERA_CHUNK_KIND_... */
  uint8_t *alias;  /* the client's mapping; NULL while the chunk is being made */
  uint64_t start;           /* of that allocation; not 0 only in opened memory */
  const tessera_shared_memory *shared; /* the memory to open, while the chunk is made; else NULL */
  uint64_t requested_bytes; /* of the one allocation that fills it; 0 if it has a slab */
  struct tsr_sort sort;
  uint64_t id;
  struct tsr_slab *slab;
  struct tsr_views *views; /* of reserved addresses, else NULL */
};

/* The id of an allocation is its chunk's id and, in these lowest bits, a number in the chunk. */
enum { TSR_ALLOCATION_BITS = 13 };

/* One allocation, as a copy that stays valid after the lock is released. */
struct tsr_span {
  struct tsr_context *context;
  uint32_t kind;
  uint64_t address;
  uint64_t bytes;
  uint8_t *alias;
  struct tsr_sort sort;
  uint64_t id;
};

/* Whether processes may share the memory by cuIpcGetMemHandle: only memory of cuMemAlloc. */
static inline bool tsr_is_ipc_capable(const struct tsr_span *span) {
  return span->kind == TESSERA_CHUNK_KIND_DEVICE && span->sort.use == TSR_USE_DEVICE &&
         !span->sort.pool;
}

extern pthread_mutex_t tsr_memory_lock; /* guards the chunk index and all slabs */

/* Request the memory that `wanted` describes (context, kind, bytes, requested_bytes, sort,
 * slab) from the worker, and add it to the index. On success the chunk owns the slab. Only the
 * offset is returned, because the chunk may be gone together with its context. Takes the lock
 * itself. */
CUresult tsr_chunk_create(const struct tsr_chunk *wanted, uint64_t *offset);

/* Remove a chunk from the index; under the lock. */
void tsr_chunk_detach(struct tsr_chunk *chunk);

/* Return a detached chunk to the worker and free it. */
CUresult tsr_chunk_destroy(struct tsr_chunk *chunk);

/* Find the chunk that contains an address, or NULL; under the lock. */
struct tsr_chunk *tsr_chunk_at(uint64_t address);

/* Reserve addresses without memory in a device's window, at `wanted_offset` if that is not 0 and
 * free. On success the chunk owns `views`. Takes the lock itself. */
CUresult tsr_chunk_reserve(const struct tsr_device *device, uint64_t bytes, uint64_t alignment,
                           uint64_t wanted_offset, struct tsr_views *views, uint64_t *offset);

/* Drop all memory of a context whose worker has ended. */
void tsr_chunks_drop(struct tsr_context *context);

/* Copy all chunks that have memory into a new array; returns their number, or -1 without room.
 * Takes the lock itself. */
int64_t tsr_chunks_copy(struct tsr_chunk **copies);

/* Call back for every chunk of a context and kind, until a callback returns true; under the
 * lock. */
bool tsr_chunks_each(struct tsr_context *context, uint32_t kind,
                     bool (*visit)(struct tsr_chunk *, void *), void *state);

#endif
