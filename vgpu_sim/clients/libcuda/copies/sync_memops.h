/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: allocations whose synchronous copies and fills the host waits for. */
#ifndef TSR_SYNC_MEMOPS_H
#define TSR_SYNC_MEMOPS_H

#include <stdbool.h>
#include <stdint.h>

/* Set or clear the attribute of an allocation, by its id; false: no memory. */
bool tsr_sync_memops_set(uint64_t id, bool wanted);

bool tsr_sync_memops_has(uint64_t id);

/* Whether any allocation has the attribute: then the host waits for all synchronous copies and fills,
 * which includes those of that allocation. */
bool tsr_sync_memops_are_used(void);

#endif
