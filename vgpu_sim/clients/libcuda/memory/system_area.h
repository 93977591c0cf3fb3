/* Driver services for kernels: printf, assertions, malloc and free. Their functions are PTX that
 * the compiler adds (compiler/system_calls.ptx, which defines the area's layout); this file
 * provides the memory that they use, and the output is printed by kernel_output.c. */
#ifndef TSR_SYSTEM_AREA_H
#define TSR_SYSTEM_AREA_H

#include "base/objects.h"

void tsr_system_area_setup(struct tsr_context *context);

/* Write the area's address to a variable of a module that was just loaded. The first such module
 * makes the context allocate the area. */
CUresult tsr_system_area_tell(struct tsr_context *context, uint64_t variable);

#endif
