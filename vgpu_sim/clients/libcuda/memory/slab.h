/* Small allocations inside one chunk: blocks of 256-byte units with boundary tags kept outside.
 * No locking, no knowledge of addresses: offsets in the chunk only. */
#ifndef TSR_SLAB_H
#define TSR_SLAB_H

#include <stdbool.h>
#include <stdint.h>

enum { TSR_SLAB_BYTES = 2 << 20, TSR_SLAB_UNIT_BYTES = 256 };

struct tsr_slab;

struct tsr_slab *tsr_slab_new(void);
void tsr_slab_free(struct tsr_slab *slab);

/* Offset of a free block of `bytes`, or -1. */
int64_t tsr_slab_take(struct tsr_slab *slab, uint64_t bytes);

/* The used block around `offset`; false where there is none. */
bool tsr_slab_find(const struct tsr_slab *slab, uint64_t offset, uint64_t *start, uint64_t *bytes);

/* Frees the block that starts at `offset`; false where none does. */
bool tsr_slab_give(struct tsr_slab *slab, uint64_t offset);

bool tsr_slab_empty(const struct tsr_slab *slab);

/* Calls back with every block in use: its start inside the slab, and the bytes asked for. */
void tsr_slab_each(const struct tsr_slab *slab,
                   void (*visit)(uint64_t start, uint64_t bytes, void *state), void *state);

#endif
