/* The context in which a pool's memory is allocated or opened. */
#ifndef TSR_POOL_CONTEXT_H
#define TSR_POOL_CONTEXT_H

#include "base/objects.h"

/* Return `preferred` in `context` if it is on the pool's device, else that device's primary context,
 * which is opened if it is closed. `preferred` may be NULL. */
CUresult tsr_pool_context(const struct tsr_pool *pool, struct tsr_context *preferred,
                          struct tsr_context **context);

#endif
