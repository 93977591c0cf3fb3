/* Waiting for the worker: spin a little, then sleep (docs/launch-protocol.md, "Doorbell"). */
#ifndef TSR_WAIT_H
#define TSR_WAIT_H

#include "objects.h"

/* Whether this thread's last request had to wake the worker: then it must not spin. */
extern __thread bool tsr_rang;

/* Waits until the ring's tail leaves room for slots up to `head`. */
CUresult tsr_wait_room(struct tsr_context *context, const uint64_t *tail, uint64_t head);

#endif
