/* Waking a worker that sleeps (docs/launch-protocol.md, "Doorbell"). */
#ifndef TSR_DOORBELL_H
#define TSR_DOORBELL_H

#include "base/objects.h"

/* Whether this thread's last request had to wake the worker: then it must not spin. */
extern __thread bool tsr_rang;

/* For a request that the worker can see by now (full fence): ends a nap, but for a short one, and
 * but for one in which the stream's last request still runs. Answers whether it had to. */
bool tsr_ring_for_request(struct tsr_context *context, uint32_t stream);
/* For somebody who waits: ends a short nap, others were ended for the request. Answers whether the
 * worker slept. */
bool tsr_ring_for_wait(struct tsr_context *context);

#endif
