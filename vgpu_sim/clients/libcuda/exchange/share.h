/* Memory that other contexts of the slice may open, by unguessable names. */
#ifndef TSR_SHARE_H
#define TSR_SHARE_H

#include "base/objects.h"

/* What a name is for, so that it opens nothing else. */
enum { TSR_SHARE_IPC = 1, TSR_SHARE_POOL, TSR_SHARE_POINTER, TSR_SHARE_PHYSICAL,
       TSR_SHARE_EVENTS = TESSERA_SHARE_PURPOSE_EVENTS };

/* Obtain the name of an allocation; of no memory with `bytes` 0. A name for the same purpose and
 * allocation is the same until the allocation is freed. */
CUresult tsr_share_offer(struct tsr_context *context, uint64_t address, uint64_t bytes,
                         uint32_t kind, uint16_t purpose, uint64_t tag,
                         tessera_shared_memory *name);

/* Obtain a name of a range of a chunk that this process opens at once, and then forgets. */
CUresult tsr_share_name(struct tsr_context *context, uint64_t offset, uint64_t bytes,
                        uint32_t kind, tessera_shared_memory *name);
void tsr_share_forget(struct tsr_context *context, const tessera_shared_memory *name);

/* Whether this process has given a name; sets the address of its memory. */
bool tsr_share_own(const tessera_shared_memory *name, uint64_t *address);

/* End the names of an allocation, which is freed. */
void tsr_share_end(uint64_t address);

/* Forget the names of a context that ends. */
void tsr_share_drop(const struct tsr_context *context);

/* Put a name into a new descriptor that the program passes to another process; -1: the system has
 * none left. */
int tsr_share_to_descriptor(const tessera_shared_memory *name);

/* Read a name; false: the descriptor has none. */
bool tsr_share_from_descriptor(int fd, tessera_shared_memory *name);

#endif
