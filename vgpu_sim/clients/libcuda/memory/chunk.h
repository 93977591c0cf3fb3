/* Device and pinned memory: chunks of the aperture, and what is allocated inside them. */
#ifndef TSR_CHUNK_H
#define TSR_CHUNK_H

#include "base/objects.h"

struct tsr_slab;

struct tsr_chunk {
  struct tsr_context *context;
  uint64_t offset; /* in the aperture */
  uint64_t bytes;  /* a multiple of TESSERA_CHUNK_ALIGN_BYTES */
  uint32_t kind;   /* TESSERA_CHUNK_KIND_... */
  uint8_t *alias;  /* where the client reads and writes it; NULL while it is being made */
  uint64_t requested_bytes; /* of the one allocation that fills it; 0 where a slab does */
  uint32_t host_flags;
  uint64_t id;
  struct tsr_slab *slab;
};

/* One allocation, as a copy that stays valid when the lock is gone. */
struct tsr_span {
  struct tsr_context *context;
  uint32_t kind;
  uint64_t address;
  uint64_t bytes;
  uint8_t *alias;
  uint32_t host_flags;
  uint64_t id;
};

extern pthread_mutex_t tsr_memory_lock; /* guards the chunk index and all slabs */

/* Asks the worker for the memory that `wanted` describes (context, kind, bytes, requested_bytes,
 * host_flags, slab) and puts it into the index. The slab belongs to the chunk when that succeeds.
 * Only the offset is answered: the chunk may be gone when its context is. Takes the lock itself. */
CUresult tsr_chunk_create(const struct tsr_chunk *wanted, uint64_t *offset);

/* Takes it out of the index; under the lock. */
void tsr_chunk_detach(struct tsr_chunk *chunk);

/* Gives a detached chunk back to the worker and frees it. */
CUresult tsr_chunk_destroy(struct tsr_chunk *chunk);

/* The chunk that holds an address, or NULL; under the lock. */
struct tsr_chunk *tsr_chunk_at(uint64_t address);

/* All memory of a context whose worker is gone. */
void tsr_chunks_drop(struct tsr_context *context);

/* Calls back with every chunk of a context and kind; under the lock. Ends when it answers true. */
bool tsr_chunks_each(struct tsr_context *context, uint32_t kind,
                     bool (*visit)(struct tsr_chunk *, void *), void *state);

#endif
