/* Memory of cuMemCreate. */
#ifndef TSR_PHYSICAL_H
#define TSR_PHYSICAL_H

#include "memory/views.h"

/* Refuse properties of memory that there is not. */
CUresult tsr_physical_check(const CUmemAllocationProp *props);

/* Allocate memory in a context of the device that checked properties state. */
CUresult tsr_physical_create(struct tsr_context *context, const CUmemAllocationProp *props,
                             uint64_t bytes, CUmemGenericAllocationHandle *handle);

/* Read the name of exported memory from a descriptor; false: it has none. */
bool tsr_physical_name(int fd, tessera_shared_memory *name);

/* Open exported memory in a context; memory of this process gets another handle. */
CUresult tsr_physical_import(struct tsr_context *context, const tessera_shared_memory *name,
                             CUmemGenericAllocationHandle *handle);

/* Whether a context has memory of cuMemCreate that is not freed. Takes the view lock. */
bool tsr_physical_lives(const struct tsr_context *context);

/* The functions below are called under the view lock. */

/* Free the memory, if it has neither handles nor mappings. */
CUresult tsr_physical_finish(struct tsr_physical *physical);

/* Return a handle of the memory, to be released separately. */
CUmemGenericAllocationHandle tsr_physical_retain(struct tsr_physical *physical);

/* Note that a context's memory ends. */
void tsr_physical_drop(const struct tsr_context *context);

#endif
