/* The condition of every wait: a counter in the worker's page has reached a value. */
#ifndef TSR_REACHED_H
#define TSR_REACHED_H

#include "base/objects.h"

static inline bool tsr_counter_reached(const uint64_t *counter, uint64_t value) {
  return __atomic_load_n(counter, __ATOMIC_ACQUIRE) >= value;
}

/* True when request `value` of the stream is done. */
static inline bool tsr_reached(const struct tsr_context *context, uint32_t stream,
                               uint64_t value) {
  return tsr_counter_reached(&context->page->timeline[stream], value);
}

#endif
