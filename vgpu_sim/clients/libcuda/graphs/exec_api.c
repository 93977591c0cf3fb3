/* Executable graphs: instantiation, launch and changes. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/refuse.h"
#include "exchange/ring.h"
#include "exchange/unsafe.h"
#include "graphs/describe.h"
#include "graphs/exec.h"
#include "graphs/locked.h"
#include "nodes/capture.h"
#include "streams/stream.h"

#define EXEC_OF(handle) TSR_FIND(tsr_exec, TSR_GRAPH_EXEC, handle)

enum {
  KNOWN_FLAGS = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
};

/* Priorities have no effect here. A launch allocates at the same addresses again, so that it frees
 * memory automatically by doing nothing. A graph is uploaded by its launch. */
static CUresult check_flags(uint64_t flags) {
  const uint64_t both =
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  if (flags & ~(uint64_t)KNOWN_FLAGS || (flags & both) == both) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *made, CUgraph handle, uint64_t flags,
                            CUgraphNode *failed_node, CUgraphInstantiateResult *why) {
  const CUresult checked = check_flags(flags);
  if (checked != CUDA_SUCCESS) return checked;
  if (!made) return CUDA_ERROR_INVALID_VALUE;
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  struct tsr_exec *exec = NULL;
  struct tsr_exec_failure failure = {.why = CUDA_GRAPH_INSTANTIATE_ERROR};
  TSR_LOCKED({
    struct tsr_graph *graph = TSR_GRAPH_OF(handle);
    if (!graph || graph->moved || tsr_graph_has_captures(graph))
      result = CUDA_ERROR_INVALID_VALUE;
    else if (tsr_graph_has_instantiated_memory(graph))
      result = CUDA_ERROR_NOT_SUPPORTED;
    else
      result = tsr_exec_new(graph, flags, &exec, &failure);
    if (exec) *made = (CUgraphExec)(uintptr_t)tsr_object_handle(TSR_GRAPH_EXEC, exec);
    if (failure.node && failed_node)
      *failed_node = (CUgraphNode)(uintptr_t)tsr_object_handle(TSR_NODE, failure.node);
    if (why) *why = exec ? CUDA_GRAPH_INSTANTIATE_SUCCESS : failure.why;
  });
}

CUresult tsr_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                         unsigned long long flags) {
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) return CUDA_ERROR_INVALID_VALUE;
  return instantiate(phGraphExec, hGraph, flags, NULL, NULL);
}

CUresult tsr_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
                                   CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize) {
  if (phErrorNode) *phErrorNode = NULL;
  if (logBuffer && bufferSize) logBuffer[0] = 0;
  return instantiate(phGraphExec, hGraph, 0, phErrorNode, NULL);
}

CUresult tsr_cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                                char *logBuffer, size_t bufferSize) {
  return tsr_cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult tsr_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
  if (!instantiateParams) return CUDA_ERROR_INVALID_VALUE;
  instantiateParams->hErrNode_out = NULL;
  instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  const CUresult result =
      instantiate(phGraphExec, hGraph, instantiateParams->flags, &instantiateParams->hErrNode_out,
                  &instantiateParams->result_out);
  if (result != CUDA_SUCCESS || !(instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
    return result;
  const CUresult uploaded = tsr_cuGraphUpload(*phGraphExec, instantiateParams->hUploadStream);
  if (uploaded == CUDA_SUCCESS) return uploaded;
  tsr_cuGraphExecDestroy(*phGraphExec);
  *phGraphExec = NULL;
  instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  return uploaded;
}

CUresult tsr_cuGraphExecDestroy(CUgraphExec hGraphExec) {
  TSR_LOCKED({
    struct tsr_exec *exec = tsr_exec_find((uint64_t)(uintptr_t)hGraphExec);
    result = exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (exec) tsr_exec_free(exec);
  });
}

/* A launch in a stream that captures becomes a child graph. */
static CUresult capture_launch(struct tsr_exec *exec, struct tsr_context *context,
                               uint32_t stream) {
  struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
  CUresult result = CUDA_ERROR_NOT_SUPPORTED; /* a child graph has no conditions and no memory */
  if (!exec->has_conditions && !exec->has_memory)
    result = tsr_graph_clone(exec->graph, &operation.child);
  tsr_graphs_unlock();
  return result == CUDA_SUCCESS ? tsr_capture_add(context, stream, &operation) : result;
}

CUresult tsr_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  tsr_graphs_lock();
  struct tsr_exec *exec = tsr_exec_find((uint64_t)(uintptr_t)hGraphExec);
  if (exec && tsr_captures(context, stream)) return capture_launch(exec, context, stream);
  if (exec) exec->launching = true;
  tsr_graphs_unlock();
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  result = tsr_exec_enqueue(exec, context, stream);
  tsr_exec_launched(exec);
  return result;
}

static CUresult upload(uint64_t handle, struct tsr_context *context) {
  tsr_graphs_lock();
  struct tsr_exec *exec = tsr_exec_find(handle);
  if (exec) exec->launching = true;
  tsr_graphs_unlock();
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = tsr_exec_upload(exec, context);
  tsr_exec_launched(exec);
  return result;
}

/* A launch brings everything that a graph needs, unless a kernel launches it. */
CUresult tsr_cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  struct tsr_context *context;
  uint32_t stream;
  const CUresult located = tsr_stream_locate(hStream, &context, &stream);
  if (located != CUDA_SUCCESS) return located;
  if (tsr_captures(context, stream))
    return tsr_capture_break(context, stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return upload((uint64_t)(uintptr_t)hGraphExec, context);
}

CUresult tsr_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_exec *exec = EXEC_OF(hGraphExec);
    if (exec) *flags = exec->flags & ~(uint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    result = exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int *graphId) {
  if (!graphId) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_exec *exec = EXEC_OF(hGraphExec);
    if (exec) *graphId = exec->id;
    result = exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
