/* Stream capture. */
#include <stdlib.h>

#include "api.h"
#include "exchange/unsafe.h"
#include "exchange/wait.h"
#include "graphs/lists.h"
#include "graphs/locked.h"
#include "nodes/capture.h"
#include "streams/stream.h"

/* Find a stream that may capture; its context's blocking captures forbid the legacy stream. */
#define LOCATE(handle)                                                     \
  struct tsr_context *context;                                             \
  uint32_t stream;                                                         \
  const CUresult located = tsr_stream_locate((handle), &context, &stream); \
  if (located != CUDA_SUCCESS) return located

CUresult tsr_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  LOCATE(hStream);
  const struct tsr_capture_start start = {.mode = mode};
  TSR_LOCKED(result = tsr_capture_begin(context, stream, &start));
}

CUresult tsr_cuStreamBeginCapture(CUstream hStream) {
  return tsr_cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult tsr_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                         const CUgraphNode *dependencies,
                                         const CUgraphEdgeData *dependencyData,
                                         size_t numDependencies, CUstreamCaptureMode mode) {
  LOCATE(hStream);
  struct tsr_node **nodes = NULL;
  TSR_LOCKED({
    struct tsr_capture_start start = {.graph = TSR_GRAPH_OF(hGraph),
                                      .data = dependencyData,
                                      .count = numDependencies,
                                      .mode = mode};
    result = start.graph ? tsr_nodes_find(dependencies, numDependencies, &nodes)
                         : CUDA_ERROR_INVALID_VALUE;
    start.dependencies = nodes;
    if (result == CUDA_SUCCESS) result = tsr_capture_begin(context, stream, &start);
    free(nodes);
  });
}

CUresult tsr_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
  LOCATE(hStream);
  if (phGraph) *phGraph = NULL;
  TSR_LOCKED({
    struct tsr_graph *graph = NULL;
    /* The graph of a capture into a graph is the program's already. */
    result = phGraph || tsr_capture_is_into_graph(context, stream)
                 ? tsr_capture_end(context, stream, &graph)
                 : CUDA_ERROR_INVALID_VALUE;
    if (graph && phGraph) *phGraph = (CUgraph)(uintptr_t)tsr_object_handle(TSR_GRAPH, graph);
  });
}

static CUresult get_info(CUstream handle, struct tsr_capture_info *info) {
  LOCATE(handle);
  if (stream == TSR_LEGACY_STREAM && atomic_load(&context->blocking_captures) != 0)
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  TSR_LOCKED(result = tsr_capture_info(context, stream, info));
}

CUresult tsr_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
  struct tsr_capture_info info;
  const CUresult result = get_info(hStream, &info);
  if (result != CUDA_SUCCESS) return result;
  if (!captureStatus) return CUDA_ERROR_INVALID_VALUE;
  *captureStatus = info.status;
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                       cuuint64_t *id_out, CUgraph *graph_out,
                                       const CUgraphNode **dependencies_out,
                                       const CUgraphEdgeData **edgeData_out,
                                       size_t *numDependencies_out) {
  struct tsr_capture_info info;
  const CUresult result = get_info(hStream, &info);
  if (result != CUDA_SUCCESS) return result;
  if (!captureStatus_out) return CUDA_ERROR_INVALID_VALUE;
  *captureStatus_out = info.status;
  if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (id_out) *id_out = info.id;
  if (graph_out) *graph_out = (CUgraph)(uintptr_t)tsr_object_handle(TSR_GRAPH, info.graph);
  if (dependencies_out) *dependencies_out = info.handles;
  if (edgeData_out) *edgeData_out = info.data;
  if (numDependencies_out) *numDependencies_out = info.count;
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                       cuuint64_t *id_out, CUgraph *graph_out,
                                       const CUgraphNode **dependencies_out,
                                       size_t *numDependencies_out) {
  return tsr_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
                                       dependencies_out, NULL, numDependencies_out);
}

CUresult tsr_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                    cuuint64_t *id_out) {
  return tsr_cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult tsr_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                                  const CUgraphEdgeData *dependencyData,
                                                  size_t numDependencies, unsigned int flags) {
  LOCATE(hStream);
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_node **nodes = NULL;
  TSR_LOCKED({
    result = tsr_nodes_find(dependencies, numDependencies, &nodes);
    if (result == CUDA_SUCCESS)
      result = tsr_capture_set_tips(context, stream, nodes, dependencyData, numDependencies,
                                    flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    free(nodes);
  });
}

CUresult tsr_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                               size_t numDependencies, unsigned int flags) {
  return tsr_cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies,
                                                  flags);
}

CUresult tsr_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  *mode = tsr_capture_mode_set(*mode);
  return CUDA_SUCCESS;
}
