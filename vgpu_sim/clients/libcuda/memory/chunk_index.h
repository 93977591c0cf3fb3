/* The index of chunks and of free addresses. What chunk.h declares to look chunks up is here, too. */
#ifndef TSR_CHUNK_INDEX_H
#define TSR_CHUNK_INDEX_H

#include "memory/chunk.h"

/* Return the offset of a free range of addresses, or 0; under the memory lock. */
uint64_t tsr_chunk_index_find(const struct tsr_device *device, uint32_t kind, uint64_t bytes);

/* The same for device memory with an alignment: `wanted`, if that is free. */
uint64_t tsr_chunk_index_find_aligned(const struct tsr_device *device, uint64_t bytes,
                                      uint64_t alignment, uint64_t wanted);

/* Add a chunk, which has no memory yet, at an offset; false: the offset is 0, or out of memory. */
bool tsr_chunk_index_add(struct tsr_chunk *chunk, uint64_t offset);

/* Remove all chunks of a context that have memory, and call back for each; takes the lock. */
void tsr_chunk_index_remove(const struct tsr_context *context, void (*removed)(struct tsr_chunk *));

#endif
