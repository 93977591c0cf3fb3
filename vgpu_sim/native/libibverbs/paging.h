/* Regions that were registered with IBV_ACCESS_ON_DEMAND. */
#ifndef TSR_PAGING_H
#define TSR_PAGING_H

#include "objects.h"

enum { TSR_PAGING_FLAGS = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB };

/* Why such a region cannot be made, as an errno value; 0 where it can, or is no such region. */
int tsr_paging_refused(const struct tsr_mr *mr);

/* The list of them. Callers take turns, by the context's `registering`. */
void tsr_paging_add(struct tsr_context *context, struct tsr_mr *mr);
void tsr_paging_remove(struct tsr_context *context, struct tsr_mr *mr);

#endif
