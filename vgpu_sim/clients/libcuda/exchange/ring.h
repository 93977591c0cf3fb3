/* Streams as rings of requests (docs/launch-protocol.md, "Streams and timelines"). */
#ifndef TSR_RING_H
#define TSR_RING_H

#include "base/objects.h"

/* A request that is being written; its ring is locked from tsr_ring_lock to commit or unlock. */
struct tsr_request {
  struct tsr_context *context;
  uint32_t stream;
  uint64_t head;  /* of the ring, as far as it is filled */
  uint64_t value; /* of the last slot filled */
  tessera_slot *slot;
};

void tsr_ring_setup(struct tsr_context *context);

/* Waits until no other thread is inside a ring of the context. */
void tsr_ring_quiesce(struct tsr_context *context);

void tsr_ring_lock(struct tsr_request *request, struct tsr_context *context, uint32_t stream);
void tsr_ring_unlock(struct tsr_request *request);

/* Makes room for a slot and its continuation slots and fills in its header: value, and waits for
 * the legacy stream's order and for `also` (or NULL). On failure the ring is unlocked. */
CUresult tsr_ring_begin(struct tsr_request *request, uint16_t opcode, uint32_t continuation_slots,
                        const tessera_wait *also);

/* The bytes of continuation slot `i`. */
uint8_t *tsr_ring_continuation(const struct tsr_request *request, uint32_t i);

/* Shows the request to the worker, wakes it where it sleeps, unlocks the ring; answers the
 * request's value. */
uint64_t tsr_ring_commit(struct tsr_request *request);

#endif
