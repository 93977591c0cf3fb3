#include "request.h"

#include "health.h"

CUresult tsr_hello_result(enum tsr_outcome outcome, int32_t status) {
  if (outcome == TSR_RECEIVED) return (CUresult)status;
  return outcome == TSR_MALFORMED ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_ERROR_NO_DEVICE;
}

CUresult tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
                 int pass_fd, struct tsr_reply *reply) {
  for (unsigned i = 0; i < TSR_MAX_FDS; i++) reply->fds[i] = -1;
  pthread_mutex_lock(&context->request_lock);
  CUresult result = tsr_context_error(context);
  if (result == CUDA_SUCCESS) {
    const uint32_t request = ++context->request;
    const enum tsr_outcome outcome =
        tsr_exchange(context->socket, type, request, payload, bytes, pass_fd, reply);
    result = outcome == TSR_RECEIVED ? (CUresult)reply->status : tsr_context_lose(context);
  }
  pthread_mutex_unlock(&context->request_lock);
  return result;
}
