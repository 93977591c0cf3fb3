/* Events in a ring, for graphs. */
#ifndef TSR_EVENT_H
#define TSR_EVENT_H

#include "base/objects.h"

CUresult tsr_event_record_in(uint64_t handle, struct tsr_context *context, uint32_t stream);
CUresult tsr_event_wait_in(uint64_t handle, struct tsr_context *context, uint32_t stream);

#endif
