/* Interprocess events: their records are in a table that other processes open too. */
#ifndef TSR_SHARED_EVENT_H
#define TSR_SHARED_EVENT_H

#include "base/objects.h"
#include "event_tables/event_table.h"

/* Give an event a place in the table of its context. */
CUresult tsr_shared_event_make(struct tsr_event *event);

/* Give an event the place that another process has made. */
CUresult tsr_shared_event_join(struct tsr_event *event, const struct tsr_event_place *place);

/* Return the event's place, or NULL if another process has made it. */
const struct tsr_event_place *tsr_shared_event_place(const struct tsr_event *event);

/* End the event's use of its place. */
void tsr_shared_event_end(struct tsr_event *event);

/* Record in a ring of the event's context. */
CUresult tsr_shared_event_record(struct tsr_event *event, uint32_t stream);

/* NOT_READY: the latest record is not done. */
CUresult tsr_shared_event_query(struct tsr_event *event);

bool tsr_shared_event_is_recorded(struct tsr_event *event);

/* Wait on the host for the latest record. */
CUresult tsr_shared_event_synchronize(struct tsr_event *event);

/* Have a ring of any context wait for the latest record; for another context than the event's, the
 * host waits. */
CUresult tsr_shared_event_wait(struct tsr_event *event, struct tsr_context *context,
                               uint32_t stream);

#endif
