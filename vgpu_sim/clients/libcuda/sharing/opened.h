/* Memory of other contexts of the slice that this process has opened. */
#ifndef TSR_OPENED_H
#define TSR_OPENED_H

#include "exchange/share.h"
#include "memory/memory.h"

/* Map shared memory in a context. Opening it again there returns the same address and counts. */
CUresult tsr_opened_add(struct tsr_context *context, const tessera_shared_memory *name,
                        uint64_t pool, uint64_t *address);

/* Verify that a name without memory is one of this slice. */
CUresult tsr_opened_verify(struct tsr_context *context, const tessera_shared_memory *name);

/* Undo one opening; INVALID_VALUE: no opened memory of that pool (0: none) begins there. The last
 * one waits for the context's work. */
CUresult tsr_opened_close(uint64_t address, uint64_t pool);

/* The same without waiting. */
CUresult tsr_opened_release(uint64_t address, uint64_t pool);

#endif
