/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: the ids of allocations whose synchronous copies and fills the host
 * waits for. */
#ifndef TSR_SYNC_MEMOPS_H
#define TSR_SYNC_MEMOPS_H

#include <stdbool.h>
#include <stdint.h>

/* Set the attribute of an allocation; false: no memory. */
bool tsr_sync_memops_set(uint64_t id);

/* Clear the attribute of the allocations with ids from `first` to `last`. A small allocation's id is
 * used again, so memory that is freed must not keep the attribute. */
void tsr_sync_memops_clear(uint64_t first, uint64_t last);

bool tsr_sync_memops_has(uint64_t id);

/* Whether any allocation has the attribute. */
bool tsr_sync_memops_any(void);

#endif
