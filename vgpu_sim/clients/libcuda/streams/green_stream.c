#include "streams/green.h"

#include "streams/group.h"
#include "streams/stream_ring.h"

CUresult tsr_green_stream_new(struct tsr_green *green, unsigned int flags, int priority,
                              uint64_t *handle) {
  struct tsr_context *context = green->context;
  CUresult result = tsr_stream_new(context, flags, handle);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_stream *stream = TSR_FIND(tsr_stream, TSR_STREAM, *handle);
  stream->green = tsr_object_handle(TSR_GREEN, green);
  tsr_stream_set_priority(context, stream->index, priority);
  result = tsr_group_join(context, stream->index, green->group);
  if (result != CUDA_SUCCESS) tsr_stream_drop(*handle);
  return result;
}
