/* Graphs as a whole. */
#include "api.h"
#include "base/refuse.h"
#include "contexts/context.h"
#include "graphs/locked.h"
#include "nodes/graph.h"

static CUgraph handle_of(const struct tsr_graph *graph) {
  return (CUgraph)(uintptr_t)tsr_object_handle(TSR_GRAPH, graph);
}

CUresult tsr_cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
  if (!phGraph || flags) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_graph *graph = tsr_graph_new();
    result = graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (graph) *phGraph = handle_of(graph);
  });
}

CUresult tsr_cuGraphDestroy(CUgraph hGraph) {
  TSR_LOCKED({
    struct tsr_graph *graph = TSR_GRAPH_OF(hGraph);
    if (!graph || graph->owner || tsr_graph_has_captures(graph))
      result = CUDA_ERROR_INVALID_VALUE;
    else
      tsr_graph_free(graph);
  });
}

CUresult tsr_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
  if (!phGraphClone) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_graph *graph = TSR_GRAPH_OF(originalGraph);
    struct tsr_graph *clone = NULL;
    if (!graph)
      result = CUDA_ERROR_INVALID_VALUE;
    else if (tsr_graph_has_memory(graph) || tsr_graph_has_conditions(graph))
      result = CUDA_ERROR_NOT_SUPPORTED;
    else
      result = tsr_graph_clone(graph, &clone);
    if (clone) *phGraphClone = handle_of(clone);
  });
}

CUresult tsr_cuGraphGetId(CUgraph hGraph, unsigned int *graphId) {
  if (!graphId) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_graph *graph = TSR_GRAPH_OF(hGraph);
    if (graph) *graphId = graph->id;
    result = graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
                                            CUcontext ctx, unsigned int defaultLaunchValue,
                                            unsigned int flags) {
  if (!pHandle_out || (flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult why = CUDA_ERROR_INVALID_CONTEXT;
  struct tsr_context *context =
      ctx ? TSR_FIND(tsr_context, TSR_CONTEXT, ctx) : tsr_context_current(&why);
  if (!context) return why;
  if (!(context->page->features & TESSERA_FEATURE_LISTS))
    TSR_REFUSE("a condition of a graph with a worker of an older version");
  TSR_LOCKED({
    struct tsr_graph *graph = TSR_GRAPH_OF(hGraph);
    struct tsr_condition *condition = NULL;
    result = graph ? tsr_condition_new(context, graph, defaultLaunchValue,
                                       flags & CU_GRAPH_COND_ASSIGN_DEFAULT, &condition)
                   : CUDA_ERROR_INVALID_VALUE;
    if (condition) *pHandle_out = condition->address;
  });
}

/* A user object starts with references of the program. */
CUresult tsr_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                unsigned int initialRefcount, unsigned int flags) {
  if (!object_out || !destroy || initialRefcount == 0 || initialRefcount > INT32_MAX ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_user_object *object = tsr_object_new(TSR_USER_OBJECT);
  if (!object) return CUDA_ERROR_OUT_OF_MEMORY;
  object->data = ptr;
  object->destroy = destroy;
  object->references = initialRefcount;
  *object_out = (CUuserObject)(uintptr_t)tsr_object_publish(TSR_USER_OBJECT, object);
  return CUDA_SUCCESS;
}

#define OBJECT_OF(handle) TSR_FIND(tsr_user_object, TSR_USER_OBJECT, handle)

CUresult tsr_cuUserObjectRetain(CUuserObject object, unsigned int count) {
  if (count == 0 || count > INT32_MAX) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    struct tsr_user_object *found = OBJECT_OF(object);
    if (found) found->references += count;
    result = found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuUserObjectRelease(CUuserObject object, unsigned int count) {
  TSR_LOCKED({
    struct tsr_user_object *found = OBJECT_OF(object);
    result = found ? tsr_user_object_release(found, count) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                     unsigned int flags) {
  if (count == 0 || count > INT32_MAX || (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
    return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    struct tsr_graph *holder = TSR_GRAPH_OF(graph);
    struct tsr_user_object *found = OBJECT_OF(object);
    if (!holder || !found || (flags && found->references < count))
      result = CUDA_ERROR_INVALID_VALUE;
    else
      result = tsr_graph_hold(holder, found, count);
    if (result == CUDA_SUCCESS && !flags) found->references += count;
  });
}

CUresult tsr_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  if (count == 0) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    struct tsr_graph *holder = TSR_GRAPH_OF(graph);
    struct tsr_user_object *found = OBJECT_OF(object);
    result = holder && found ? tsr_graph_unhold(holder, found, count) : CUDA_ERROR_INVALID_VALUE;
  });
}
