/* Allocations, whichever function made them. */
#ifndef TSR_MEMORY_H
#define TSR_MEMORY_H

#include "memory/chunk.h"

enum { TSR_OWN_CHUNK_BYTES = 1 << 20 }; /* blocks of at least this size have their own chunk */

/* Find the allocation that contains an address; false if there is none. Takes the memory lock. */
bool tsr_memory_find(uint64_t address, struct tsr_span *span);

/* Whether the allocation that contains an address has CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. */
bool tsr_memory_is_synchronous(uint64_t address);

CUresult tsr_memory_allocate(struct tsr_context *context, struct tsr_sort sort, uint64_t bytes,
                             uint64_t *address);

/* Wait for the context's work, then free the allocation that begins at `address`; INVALID_VALUE
 * if no allocation of that use does, or a pool owns it. */
CUresult tsr_memory_free(uint64_t address, enum tsr_use use);

/* The same without waiting, and for a pool's memory as well. */
CUresult tsr_memory_release(uint64_t address, enum tsr_use use);

/* Change the size of the allocation that begins at `address`, up to the size with which it was
 * allocated. With 0 bytes it is no longer found. */
void tsr_memory_resize(uint64_t address, uint64_t bytes);

/* Find the freed allocation of a context that contained an address, if it is among the most
 * recent ones and no live allocation contains the address; under the memory lock. */
bool tsr_memory_find_freed_locked(const struct tsr_context *context, uint64_t address,
                                  uint64_t *begin, uint64_t *bytes);

#endif
