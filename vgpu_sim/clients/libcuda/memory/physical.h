/* Memory of cuMemCreate. All functions are called under the view lock. */
#ifndef TSR_PHYSICAL_H
#define TSR_PHYSICAL_H

#include "memory/views.h"

/* Free the memory, if it has neither handles nor mappings. */
CUresult tsr_physical_finish(struct tsr_physical *physical);

/* Return a handle of the memory, to be released separately. */
CUmemGenericAllocationHandle tsr_physical_retain(struct tsr_physical *physical);

/* Note that a context's memory ends. */
void tsr_physical_drop(const struct tsr_context *context);

#endif
