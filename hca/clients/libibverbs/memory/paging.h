/* Regions registered with IBV_ACCESS_ON_DEMAND. */
#ifndef TSR_PAGING_H
#define TSR_PAGING_H

#include "objects.h"

enum { TSR_PAGING_FLAGS = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB };

/* The list of these regions. The caller holds the context's `registering`. */
void tsr_paging_add(struct tsr_context *context, struct tsr_mr *mr);
void tsr_paging_remove(struct tsr_context *context, struct tsr_mr *mr);

#endif
