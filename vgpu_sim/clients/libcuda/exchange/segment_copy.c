#include "exchange/segment_copy.h"

#include "contexts/context.h"
#include "exchange/ring.h"
#include "exchange/wait.h"

CUresult tsr_segment_copy(struct tsr_context *context, uint64_t destination, uint64_t source,
                          uint64_t bytes) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, TSR_LEGACY_STREAM);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_COPY, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.copy =
      (tessera_copy_body){.destination = destination, .source = source, .bytes = bytes};
  return tsr_wait(context, TSR_LEGACY_STREAM, tsr_ring_commit(&request));
}
