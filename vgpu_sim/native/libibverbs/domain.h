/* Memory regions, as the library itself changes them. */
#ifndef TSR_DOMAIN_H
#define TSR_DOMAIN_H

#include "objects.h"

/* Registers a region's range again, of the pages that lie there now, with its keys. 0 or an errno
 * value, and then the region is what it was. Callers take turns, by the context's `registering`. */
int tsr_region_renew(struct tsr_context *context, struct tsr_mr *mr);

#endif
