/* Streams as rings of requests (docs/launch-protocol.md, "Streams and timelines"). */
#ifndef TSR_RING_H
#define TSR_RING_H

#include "objects.h"

enum { TSR_LEGACY_STREAM = 0 };

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

/* Ends the worker's nap, if it naps; a short one only on behalf of somebody who waits. Answers
 * whether it slept. */
bool tsr_wake_worker(struct tsr_context *context, bool dozing_too);

/* True when request `value` of the stream is done. */
bool tsr_reached(const struct tsr_context *context, uint32_t stream, uint64_t value);

/* Waits for it; returns the context's error when it died. */
CUresult tsr_wait(struct tsr_context *context, uint32_t stream, uint64_t value);

/* Everything enqueued so far: in one stream (in the legacy stream: in all blocking streams too),
 * in all streams. */
bool tsr_stream_idle(const struct tsr_context *context, uint32_t stream);
CUresult tsr_wait_stream(struct tsr_context *context, uint32_t stream);
CUresult tsr_wait_all(struct tsr_context *context);

/* The same, and what the stream's next request would wait for: after it the client may copy. */
bool tsr_stream_open(const struct tsr_context *context, uint32_t stream);
CUresult tsr_wait_stream_open(struct tsr_context *context, uint32_t stream);

bool tsr_is_blocking(const struct tsr_context *context, uint32_t stream);

#endif
