/* Fills in a ring, for graphs. */
#ifndef TSR_FILL_H
#define TSR_FILL_H

#include "nodes/operation.h"

/* Enqueue a fill that tsr_fill_check has accepted. */
CUresult tsr_fill_enqueue(struct tsr_context *context, uint32_t stream,
                          const CUDA_MEMSET_NODE_PARAMS *fill);

#endif
