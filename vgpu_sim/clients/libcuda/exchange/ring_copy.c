#include "exchange/ring_copy.h"

#include "contexts/context.h"
#include "exchange/ring.h"
#include "exchange/wait.h"

CUresult tsr_copy_enqueue(struct tsr_context *context, uint32_t stream, uint64_t destination,
                          uint64_t source, uint64_t bytes) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_COPY, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.copy =
      (tessera_copy_body){.destination = destination, .source = source, .bytes = bytes};
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

CUresult tsr_segment_copy(struct tsr_context *context, uint64_t destination, uint64_t source,
                          uint64_t bytes) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, TSR_LEGACY_STREAM);
  if (!tsr_object_lives(context)) {
    tsr_ring_unlock(&request);
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  /* Captures do not refuse this copy: a program may capture the launch for which its library loads
   * the module. */
  const CUresult result = tsr_ring_begin_next(&request, TESSERA_OPCODE_COPY, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.copy =
      (tessera_copy_body){.destination = destination, .source = source, .bytes = bytes};
  return tsr_wait(context, TSR_LEGACY_STREAM, tsr_ring_commit(&request));
}
