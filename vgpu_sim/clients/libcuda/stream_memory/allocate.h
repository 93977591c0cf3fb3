/* Allocation for programs. */
#ifndef TSR_ALLOCATE_H
#define TSR_ALLOCATE_H

#include "memory/memory.h"

/* Allocate; if the slice has no memory left, pools release what they do not use. */
CUresult tsr_allocate(struct tsr_context *context, struct tsr_sort sort, uint64_t bytes,
                      uint64_t *address);

#endif
