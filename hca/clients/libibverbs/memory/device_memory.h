/* Registered GPU memory: GPUDirect RDMA. */
#ifndef TSR_VERBS_DEVICE_MEMORY_H
#define TSR_VERBS_DEVICE_MEMORY_H

#include "objects.h"

/* Find the memory of a range for a region, on the GPU or in this process (as tsr_pin()). */
int tsr_find_memory(struct tsr_context *context, void *address, size_t bytes,
                    tessera_hca_mr_create *region, struct tsr_segment **used);

/* The same for memory named by a descriptor of cuMemGetHandleForAddressRange. */
int tsr_find_shared(struct tsr_context *context, const tessera_hca_segment_shared *wanted,
                    tessera_hca_mr_create *region, struct tsr_segment **used);

#endif
