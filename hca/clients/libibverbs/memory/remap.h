/* Registered memory: the program's pages are replaced, at the same addresses and with the same
 * content, by memory that hcad has created. When no region uses them any more, the program gets
 * private pages again. */
#ifndef TSR_REMAP_H
#define TSR_REMAP_H

#include "objects.h"

/* Fill in the pieces of a region, replacing the pages that were not replaced yet, and count the
 * region in each segment. The caller holds `registering`. 0 or an errno value; EOPNOTSUPP: pages
 * cannot be replaced; EFAULT: nothing is mapped. */
int tsr_pin(struct tsr_context *context, void *address, size_t bytes,
            tessera_hca_mr_create *region, struct tsr_segment **used);
/* Whether those of a segment's pages that are in a range are still mapped there. */
bool tsr_is_pinned(const struct tsr_segment *segment, const void *address, size_t bytes);
void tsr_unpin(struct tsr_context *context, struct tsr_segment **used, unsigned count);

#endif
