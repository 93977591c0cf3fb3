/* Groups of streams that are recorded by one event, and that wait for one event: all streams of a
 * context (group 0), or those of a green context. */
#ifndef TSR_GROUP_H
#define TSR_GROUP_H

#include "base/objects.h"

/* Begin a group of streams whose kernels use some multiprocessors; OUT_OF_MEMORY: there are too many. */
CUresult tsr_group_begin(struct tsr_context *context, uint32_t multiprocessors, uint32_t *group);

/* End a group, and invalidate the captures of its streams, which belong to no green context then. */
void tsr_group_end(struct tsr_context *context, uint32_t group);

/* Put a new stream into a group. It waits for the events for which its groups wait. */
CUresult tsr_group_join(struct tsr_context *context, uint32_t stream, uint32_t group);

/* Whether a stream belongs to a group. */
bool tsr_group_has(const struct tsr_context *context, uint32_t stream, uint32_t group);

/* Whether a stream of the group captures; if so, the captures become invalid. */
bool tsr_group_break_captures(struct tsr_context *context, uint32_t group);

/* The functions below need the group lock. */

/* Return the ring for the group's own requests. */
CUresult tsr_group_ring(struct tsr_context *context, uint32_t group, uint32_t *ring);

/* Have a stream wait for the events for which the group waits. */
CUresult tsr_group_pass(struct tsr_context *context, uint32_t stream, uint32_t group);

#endif
