/* Allocations, whichever way they are made. */
#ifndef TSR_MEMORY_H
#define TSR_MEMORY_H

#include "memory/chunk.h"

enum { TSR_OWN_CHUNK_BYTES = 1 << 20 }; /* blocks of as much have their chunk for themselves */

/* The allocation that holds an address; false where there is none. Takes the memory lock. */
bool tsr_memory_find(uint64_t address, struct tsr_span *span);

CUresult tsr_memory_allocate(struct tsr_context *context, uint32_t kind, uint64_t bytes,
                             uint32_t host_flags, uint64_t *address);

/* Frees what begins at `address`; INVALID_VALUE where nothing of that kind does. */
CUresult tsr_memory_free(uint64_t address, uint32_t kind);

/* The freed allocation of a context that held an address, if it was among the last to be freed and
 * lies in no live one; under the memory lock. */
bool tsr_memory_find_freed_locked(const struct tsr_context *context, uint64_t address,
                                  uint64_t *begin, uint64_t *bytes);

#endif
