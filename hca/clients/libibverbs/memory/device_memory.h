/* Registered memory of a GPU: GPUDirect RDMA. */
#ifndef TSR_VERBS_DEVICE_MEMORY_H
#define TSR_VERBS_DEVICE_MEMORY_H

#include "objects.h"

/* Finds the memory of a range for a region, wherever it is, as tsr_pin() does. */
int tsr_find_memory(struct tsr_context *context, void *address, size_t bytes,
                    tessera_hca_mr_create *region, struct tsr_segment **used);

/* The same of what a descriptor of cuMemGetHandleForAddressRange names. */
int tsr_find_shared(struct tsr_context *context, const tessera_hca_segment_shared *wanted,
                    tessera_hca_mr_create *region, struct tsr_segment **used);

#endif
