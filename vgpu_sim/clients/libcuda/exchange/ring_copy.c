#include "exchange/ring_copy.h"

#include "contexts/context.h"
#include "exchange/ring.h"
#include "exchange/wait.h"

/* Put a copy into a ring; `value` is set to the request's value. */
static CUresult enqueue(struct tsr_context *context, uint32_t stream, const tessera_copy_body *copy,
                        uint64_t *value) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_COPY, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.copy = *copy;
  *value = tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

CUresult tsr_copy_enqueue(struct tsr_context *context, uint32_t stream, uint64_t destination,
                          uint64_t source, uint64_t bytes) {
  const tessera_copy_body copy = {.destination = destination, .source = source, .bytes = bytes};
  uint64_t value;
  return enqueue(context, stream, &copy, &value);
}

CUresult tsr_segment_copy(struct tsr_context *context, uint64_t destination, uint64_t source,
                          uint64_t bytes) {
  const tessera_copy_body copy = {.destination = destination, .source = source, .bytes = bytes};
  uint64_t value;
  const CUresult result = enqueue(context, TSR_LEGACY_STREAM, &copy, &value);
  return result == CUDA_SUCCESS ? tsr_wait(context, TSR_LEGACY_STREAM, value) : result;
}
