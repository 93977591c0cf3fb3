/* Events of groups of streams. */
#ifndef TSR_GROUP_EVENTS_H
#define TSR_GROUP_EVENTS_H

#include "base/objects.h"

/* Record an event after all work that the streams of the group have now. */
CUresult tsr_group_record(struct tsr_context *context, uint32_t group, CUevent event);

/* Have all later work of the group wait for an event. */
CUresult tsr_group_wait(struct tsr_context *context, uint32_t group, CUevent event);

#endif
