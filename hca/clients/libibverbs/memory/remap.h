/* Registered memory: the program's pages are replaced by memory that hcad made, with their content,
 * at their addresses; and back when no region has them any more. */
#ifndef TSR_REMAP_H
#define TSR_REMAP_H

#include "objects.h"

/* Fills in the pieces of a region, replacing pages where none did yet, and notes a region more in
 * each segment. Its callers take turns. 0 or an errno value: EOPNOTSUPP for pages that cannot be
 * replaced, EFAULT where nothing is mapped. */
int tsr_pin(struct tsr_context *context, void *address, size_t bytes,
            tessera_hca_mr_create *region, struct tsr_segment **used);
/* Whether the pages of a segment that are in a range are still where they were put. */
bool tsr_is_pinned(const struct tsr_segment *segment, const void *address, size_t bytes);
void tsr_unpin(struct tsr_context *context, struct tsr_segment **used, unsigned count);

#endif
