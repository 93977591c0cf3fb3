/* Events in a ring, for graphs. */
#ifndef TSR_EVENT_H
#define TSR_EVENT_H

#include "base/objects.h"

CUresult tsr_event_record_in(uint64_t handle, struct tsr_context *context, uint32_t stream);
/* Whether an event belongs to a capture in progress, which becomes invalid. */
bool tsr_event_breaks_capture(CUevent event);

CUresult tsr_event_wait_in(uint64_t handle, struct tsr_context *context, uint32_t stream);
/* If an event is of another context than the given one, wait for it on the host. */
CUresult tsr_event_wait_abroad(CUevent event, const struct tsr_context *context);

#endif
