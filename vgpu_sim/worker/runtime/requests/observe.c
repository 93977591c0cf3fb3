/* Reports of requests to the observer, which keeps the clock of a context that does not use
 * wall-clock time. */
#define _GNU_SOURCE
#include "base/internal.h"

static uint64_t report(uint32_t stream, const request *r, uint32_t ended) {
  tw_lead_pass(); /* the observer is Python code and may take long */
  tw_current.kind = ACTIVITY_CALLBACK;
  const uint64_t now_ns = tw.config.observer(stream, &r->slot, r->parameters, ended);
  tw_current.kind = ACTIVITY_NONE;
  return now_ns;
}

bool tw_observe(uint32_t stream, const request *r) {
  const uint64_t now_ns = report(stream, r, 0);
  if (r->slot.opcode != TESSERA_OPCODE_TIMESTAMP) return false;
  __atomic_store_n(&tw.page->timestamps[r->slot.body.timestamp.index], now_ns, __ATOMIC_RELAXED);
  return true;
}

void tw_observe_end(uint32_t stream, const request *r) {
  if (r->slot.opcode == TESSERA_OPCODE_LAUNCH) report(stream, r, 1);
}
