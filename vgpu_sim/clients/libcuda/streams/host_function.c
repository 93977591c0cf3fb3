/* cuLaunchHostFunc and cuStreamAddCallback. */
#include "streams/host_function.h"

#include <stdlib.h>

#include "api.h"
#include "callbacks/host_queue.h"
#include "contexts/context.h"
#include "nodes/capture.h"
#include "streams/stream.h"

struct host_function {
  struct tsr_host_task task; /* first member */
  CUhostFn function;
  CUstreamCallback callback;
  CUstream stream;
  void *data;
};

/* A host function runs only if the work before it succeeded; a callback gets the error as its
 * status. */
static void call(struct tsr_host_task *task, CUresult status) {
  struct host_function *one = (struct host_function *)task;
  const struct host_function copy = *one;
  free(one);
  if (copy.callback)
    copy.callback(copy.stream, status, copy.data);
  else if (status == CUDA_SUCCESS)
    copy.function(copy.data);
}

static CUresult enqueue(struct tsr_context *context, uint32_t stream,
                        const struct host_function *wanted) {
  struct host_function *one = malloc(sizeof *one);
  if (!one) return CUDA_ERROR_OUT_OF_MEMORY;
  *one = *wanted;
  one->task.run = call;
  const CUresult result = tsr_host_enqueue(context, stream, &one->task);
  if (result != CUDA_SUCCESS) free(one);
  return result;
}

CUresult tsr_host_function_enqueue(struct tsr_context *context, uint32_t stream, CUhostFn function,
                                   void *data) {
  const struct host_function wanted = {.function = function, .data = data};
  return enqueue(context, stream, &wanted);
}

CUresult tsr_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
  struct tsr_context *context;
  uint32_t stream;
  const CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!fn) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_captures(context, stream))
    return tsr_host_function_enqueue(context, stream, fn, userData);
  /* Without a context, like nodes that a program describes: either may replace the other. */
  struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_HOST,
                                    .host = {.fn = fn, .userData = userData}};
  return tsr_capture_add(context, stream, &operation);
}

/* `syncMode` advises how the device waits for the host. */
CUresult tsr_cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void *userData,
                                 unsigned int syncMode) {
  if (syncMode > CU_HOST_TASK_SPINWAIT) return CUDA_ERROR_INVALID_VALUE;
  return tsr_cuLaunchHostFunc(hStream, fn, userData);
}

/* A callback gets errors as its status, so that it cannot be a node of a graph. */
CUresult tsr_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                 unsigned int flags) {
  struct tsr_context *context;
  uint32_t stream;
  const CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
  const struct host_function wanted = {.callback = callback, .stream = hStream, .data = userData};
  return enqueue(context, stream, &wanted);
}
