/* Internal functions for memory regions. The caller holds the context's `registering`. */
#ifndef TSR_REGION_H
#define TSR_REGION_H

#include "objects.h"

/* Register a region's range again with the pages that are mapped there now, keeping the keys. 0
 * or an errno value: then the region is unchanged. */
int tsr_region_renew(struct tsr_context *context, struct tsr_mr *mr);

/* Register a range; requests address it from `iova` on. NULL with errno set. */
struct tsr_mr *tsr_region_new(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                              unsigned access);
/* Register the pieces in `wanted`, and release them if hcad refuses. 0 or an errno value. */
int tsr_region_register(struct tsr_context *context, struct tsr_mr *mr,
                        tessera_hca_mr_create *wanted);
/* Deregister a region; 0 or an errno value: then the region is unchanged. */
int tsr_region_end(struct tsr_mr *mr);

/* Make a region with other pages, another domain or other access, which takes over the key of
 * `mr`. 0 or an errno value: then `mr` is unchanged. */
int tsr_region_exchange(struct tsr_context *context, struct tsr_mr *mr, struct tsr_mr *wanted);

#endif
