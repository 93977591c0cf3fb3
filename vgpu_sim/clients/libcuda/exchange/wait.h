/* Waiting for the worker: spin a little, then sleep (docs/launch-protocol.md, "Doorbell"). */
#ifndef TSR_WAIT_H
#define TSR_WAIT_H

#include "base/reached.h"

enum { TSR_LEGACY_STREAM = 0 };

/* Wait until the stream's ring has room for slots up to `head`. */
CUresult tsr_wait_room(struct tsr_context *context, uint32_t stream, uint64_t head);

/* Wait until request `value` of the stream is done (tsr_reached); returns the context's error if
 * it has failed. */
CUresult tsr_wait(struct tsr_context *context, uint32_t stream, uint64_t value);

/* Check or wait for everything enqueued so far: in one stream (and, for the legacy stream, in
 * all blocking streams), or in all streams. */
bool tsr_stream_idle(const struct tsr_context *context, uint32_t stream);
CUresult tsr_wait_stream(struct tsr_context *context, uint32_t stream);
CUresult tsr_wait_all(struct tsr_context *context);

/* The same, but also for everything that the stream's next request would wait for. Afterwards
 * the client may copy. */
bool tsr_stream_open(const struct tsr_context *context, uint32_t stream);
CUresult tsr_wait_stream_open(struct tsr_context *context, uint32_t stream);

/* After a wait that the program has requested, release what memory pools need not keep. Returns
 * the wait's result. */
static inline CUresult tsr_wait_and_trim(struct tsr_context *context, CUresult waited) {
  if (waited == CUDA_SUCCESS) context->synchronized(context);
  return waited;
}

bool tsr_is_blocking(const struct tsr_context *context, uint32_t stream);

#endif
