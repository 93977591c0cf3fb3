/* Memory of one whole GPU that contexts on another access at the same addresses: device memory
 * after cuCtxEnablePeerAccess, memory of pools after cuMemPoolSetAccess, and pinned and managed
 * memory always. */
#ifndef TSR_PEERS_H
#define TSR_PEERS_H

#include "memory/chunk.h"

/* Whether contexts on one device may access memory of the other: both are whole GPUs. */
bool tsr_peers_reach(const struct tsr_device *accessor, const struct tsr_device *owner);

/* Let a new context access what contexts on its device may access. */
void tsr_peers_enter(struct tsr_context *context);

/* Forget a context that ends, and end the access to its memory. Takes the peer lock. */
void tsr_peers_drop(struct tsr_context *context);

/* Let `accessor` access the memory of `owner`; PEER_ACCESS_ALREADY_ENABLED: it does. */
CUresult tsr_peers_enable(struct tsr_context *accessor, struct tsr_context *owner);

/* End such access, after a wait; PEER_ACCESS_NOT_ENABLED: there is none. */
CUresult tsr_peers_disable(struct tsr_context *accessor, struct tsr_context *owner);

/* Begin and end access to memory after a change of which devices access a pool. */
CUresult tsr_peers_revise(void);

/* Let other contexts access a new chunk, of which `chunk` is a copy. */
CUresult tsr_peers_open(const struct tsr_chunk *chunk);

/* End the access of other contexts to a chunk that is about to be freed, after their work. */
void tsr_peers_close(uint64_t offset);

#endif
