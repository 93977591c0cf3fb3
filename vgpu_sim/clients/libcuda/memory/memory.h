/* Allocations, whichever function made them. */
#ifndef TSR_MEMORY_H
#define TSR_MEMORY_H

#include "memory/chunk.h"

enum { TSR_OWN_CHUNK_BYTES = 1 << 20 }; /* blocks of at least this size have their own chunk */

/* Find the allocation that contains an address; false if there is none. Takes the memory lock. */
bool tsr_memory_find(uint64_t address, struct tsr_span *span);

CUresult tsr_memory_allocate(struct tsr_context *context, uint32_t kind, uint64_t bytes,
                             uint32_t host_flags, uint64_t *address);

/* Free the allocation that begins at `address`; INVALID_VALUE if no allocation of that kind
 * does. */
CUresult tsr_memory_free(uint64_t address, uint32_t kind);

/* Find the freed allocation of a context that contained an address, if it is among the most
 * recent ones and no live allocation contains the address; under the memory lock. */
bool tsr_memory_find_freed_locked(const struct tsr_context *context, uint64_t address,
                                  uint64_t *begin, uint64_t *bytes);

#endif
