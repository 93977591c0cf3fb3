/* What kernels call of the driver: printf, assertions, malloc and free. The functions are PTX that
 * the compiler adds (compiler/system_calls.ptx, which has the layout of the area); here is the
 * memory that they work on, and what prints their output. */
#ifndef TSR_SYSTEM_AREA_H
#define TSR_SYSTEM_AREA_H

#include "base/objects.h"

void tsr_system_area_setup(struct tsr_context *context);

/* Writes the area's address to a variable of a module that was just loaded. The context gets its
 * area with the first such module. */
CUresult tsr_system_area_tell(struct tsr_context *context, uint64_t variable);

#endif
