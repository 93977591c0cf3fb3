/* Waking a worker that sleeps (docs/launch-protocol.md, "Doorbell"). */
#ifndef TSR_DOORBELL_H
#define TSR_DOORBELL_H

#include "objects.h"

/* Whether this thread's last request had to wake the worker: then it must not spin. */
extern __thread bool tsr_rang;

/* Ends the worker's nap, if it naps; a short one only on behalf of somebody who waits. Answers
 * whether it slept. */
bool tsr_wake_worker(struct tsr_context *context, bool dozing_too);

#endif
