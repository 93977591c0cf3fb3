/* Streams as rings of requests (docs/launch-protocol.md, "Streams and timelines"). */
#ifndef TSR_RING_H
#define TSR_RING_H

#include "base/objects.h"

/* A request being written; its ring is locked from tsr_ring_lock to commit or unlock. */
struct tsr_request {
  struct tsr_context *context;
  uint32_t stream; /* TSR_LIST_RING: it is written to a list (exchange/list.h) */
  uint64_t head;  /* position in the ring up to which it is filled */
  uint64_t value; /* the last slot filled */
  tessera_slot *slot;
};

void tsr_ring_setup(struct tsr_context *context);

/* Wait until no other thread uses a ring of the context. */
void tsr_ring_quiesce(struct tsr_context *context);

void tsr_ring_lock(struct tsr_request *request, struct tsr_context *context, uint32_t stream);
void tsr_ring_unlock(struct tsr_request *request);

/* Reserve a slot and its continuation slots, and fill in its header: the value, the waits that
 * the legacy stream's order requires, and the wait `also` (or NULL). On failure the ring is
 * unlocked. */
CUresult tsr_ring_begin(struct tsr_request *request, uint16_t opcode, uint32_t continuation_slots,
                        const tessera_wait *also);

/* The same for a request that captures do not refuse: a further one under the same lock, for which a
 * capture may have begun since the first one, and a copy for a module that is being loaded. */
CUresult tsr_ring_begin_next(struct tsr_request *request, uint16_t opcode,
                             uint32_t continuation_slots, const tessera_wait *also);

/* Return the bytes of continuation slot `i`. */
uint8_t *tsr_ring_continuation(const struct tsr_request *request, uint32_t i);

/* Publish the request to the worker, wake the worker if it is asleep, and unlock the ring;
 * returns the request's value. */
uint64_t tsr_ring_commit(struct tsr_request *request);

/* Enqueue a request that only waits: for those values of other streams, and as the legacy stream's
 * order requires. */
CUresult tsr_ring_wait(struct tsr_context *context, uint32_t stream, const tessera_wait *waits,
                       uint32_t count);

/* Whether streams of the context capture; if so, their captures become invalid. */
bool tsr_ring_captures(struct tsr_context *context);

/* Refuse a call, and invalidate the capture, if the stream captures: for functions that capture
 * nothing and may not enqueue a request either. */
CUresult tsr_ring_check_capture(struct tsr_context *context, uint32_t stream);

/* Return the value of the stream's last request. */
uint64_t tsr_ring_last(const struct tsr_context *context, uint32_t stream);

#endif
