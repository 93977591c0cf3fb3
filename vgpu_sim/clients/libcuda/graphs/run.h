/* Running one operation of a graph in a ring. */
#ifndef TSR_RUN_H
#define TSR_RUN_H

#include "nodes/operation.h"

CUresult tsr_operation_run(const struct tsr_operation *operation, struct tsr_context *context,
                           uint32_t stream);

#endif
