/* Memory regions, as the library itself changes them. */
#ifndef TSR_REGION_H
#define TSR_REGION_H

#include "objects.h"

/* Registers a region's range again, of the pages that lie there now, with its keys. 0 or an errno
 * value, and then the region is what it was. Callers take turns, by the context's `registering`. */
int tsr_region_renew(struct tsr_context *context, struct tsr_mr *mr);

/* Registers a range, which begins at `iova` for requests; NULL with errno set. Callers take turns. */
struct tsr_mr *tsr_region_new(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                              unsigned access);
/* Registers the pieces of `wanted`, which have been found, and forgets them where hcad refuses. 0 or
 * an errno value. Callers take turns. */
int tsr_region_register(struct tsr_context *context, struct tsr_mr *mr,
                        tessera_hca_mr_create *wanted);
/* Deregisters one; 0 or an errno value, and then it stays. Callers take turns. */
int tsr_region_end(struct tsr_mr *mr);

/* Makes a region of other pages, domain or access, which takes over the key of `mr`. 0 or an errno
 * value, and then that is what it was. Callers take turns. */
int tsr_region_exchange(struct tsr_context *context, struct tsr_mr *mr, struct tsr_mr *wanted);

#endif
