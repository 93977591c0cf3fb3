/* Small allocations inside one chunk: blocks of 512-byte units, whose boundary tags are kept
 * outside the chunk. No locking, no addresses: only offsets in the chunk. */
#ifndef TSR_SLAB_H
#define TSR_SLAB_H

#include <stdbool.h>
#include <stdint.h>

enum { TSR_SLAB_BYTES = 2 << 20, TSR_SLAB_UNIT_BYTES = 512 };

struct tsr_slab;

struct tsr_slab *tsr_slab_new(void);
void tsr_slab_free(struct tsr_slab *slab);

/* Return the offset of a free block of `bytes`, or -1. */
int64_t tsr_slab_take(struct tsr_slab *slab, uint64_t bytes);

/* Find the used block around `offset`; false if there is none. */
bool tsr_slab_find(const struct tsr_slab *slab, uint64_t offset, uint64_t *start, uint64_t *bytes);

/* Set the requested size of the used block that starts at `offset`. */
void tsr_slab_resize(struct tsr_slab *slab, uint64_t offset, uint64_t bytes);

/* Free the block that starts at `offset`; false if none does. */
bool tsr_slab_give(struct tsr_slab *slab, uint64_t offset);

bool tsr_slab_empty(const struct tsr_slab *slab);

/* Call back for every used block, with its start inside the slab and its requested size. */
void tsr_slab_each(const struct tsr_slab *slab,
                   void (*visit)(uint64_t start, uint64_t bytes, void *state), void *state);

#endif
