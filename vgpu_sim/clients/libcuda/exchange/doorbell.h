/* Waking a worker that is asleep (docs/launch-protocol.md, "Doorbell"). */
#ifndef TSR_DOORBELL_H
#define TSR_DOORBELL_H

#include "base/objects.h"

/* Whether this thread's last request had to wake the worker, in which case the thread must not
 * spin. */
extern __thread bool tsr_rang;

/* End the worker's nap for a request that is visible to the worker (full fence), unless the nap
 * is short or the stream's last request is still running. Returns whether the worker had to be
 * woken. */
bool tsr_ring_for_request(struct tsr_context *context, uint32_t stream);
/* End a short nap for a waiting thread; a long one was ended for the request. Returns whether
 * the worker was asleep. */
bool tsr_ring_for_wait(struct tsr_context *context);

#endif
