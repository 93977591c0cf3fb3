/* cuLaunchHostFunc and cuStreamAddCallback. */
#include <stdlib.h>

#include "api.h"
#include "callbacks/host_queue.h"
#include "contexts/context.h"
#include "streams/stream.h"

struct host_function {
  struct tsr_host_task task; /* first member */
  CUhostFn function;
  CUstreamCallback callback;
  CUstream stream;
  void *data;
};

/* A host function runs only if the work before it succeeded; a callback learns of the error. */
static void call(struct tsr_host_task *task, CUresult status) {
  struct host_function *one = (struct host_function *)task;
  const struct host_function copy = *one;
  free(one);
  if (copy.callback)
    copy.callback(copy.stream, status, copy.data);
  else if (status == CUDA_SUCCESS)
    copy.function(copy.data);
}

static CUresult enqueue(struct host_function wanted) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(wanted.stream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  struct host_function *one = malloc(sizeof *one);
  if (!one) return CUDA_ERROR_OUT_OF_MEMORY;
  *one = wanted;
  one->task.run = call;
  result = tsr_host_enqueue(context, stream, &one->task);
  if (result != CUDA_SUCCESS) free(one);
  return result;
}

CUresult tsr_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
  if (!fn) return CUDA_ERROR_INVALID_VALUE;
  return enqueue((struct host_function){.function = fn, .stream = hStream, .data = userData});
}

/* `syncMode` advises how the device waits for the host. */
CUresult tsr_cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData,
                                 unsigned int syncMode) {
  if (syncMode > CU_HOST_TASK_SPINWAIT) return CUDA_ERROR_INVALID_VALUE;
  return tsr_cuLaunchHostFunc(hStream, fn, userData);
}

CUresult tsr_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                 unsigned int flags) {
  if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
  return enqueue((struct host_function){.callback = callback, .stream = hStream, .data = userData});
}
