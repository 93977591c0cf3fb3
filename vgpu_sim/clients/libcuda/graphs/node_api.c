/* Nodes of a graph: adding, parameters, properties. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/refuse.h"
#include "graphs/describe.h"
#include "graphs/lists.h"
#include "graphs/locked.h"
#include "memory/graph_memory.h"

static CUgraphNode handle_of(const struct tsr_node *node) {
  return (CUgraphNode)(uintptr_t)tsr_object_handle(TSR_NODE, node);
}

struct place {
  CUgraphNode *made;
  CUgraph graph;
  const CUgraphNode *dependencies;
  const CUgraphEdgeData *data;
  size_t count;
};

/* Whether a graph is part of another one, or is that graph. */
static bool is_inside(const struct tsr_graph *graph, const struct tsr_graph *outer) {
  while (graph != outer && graph->owner) graph = graph->owner->graph;
  return graph == outer;
}

/* Results (the address of an allocation, the bodies of a condition) are stored in `parameters`. */
static CUresult add(const struct place *place, CUgraphNodeParams *parameters) {
  if (!place->made) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_node **dependencies = NULL, *node = NULL;
  struct tsr_operation operation;
  TSR_LOCKED({
    struct tsr_graph *graph = TSR_GRAPH_OF(place->graph);
    result = graph ? tsr_nodes_find(place->dependencies, place->count, &dependencies)
                   : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && parameters->type == CU_GRAPH_NODE_TYPE_GRAPH &&
        parameters->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE &&
        TSR_GRAPH_OF(parameters->graph.graph) &&
        is_inside(graph, TSR_GRAPH_OF(parameters->graph.graph)))
      result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < place->count; i++)
      if (dependencies[i]->graph != graph) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = tsr_describe(&operation, graph, parameters);
    if (result == CUDA_SUCCESS)
      result =
          tsr_graph_add_new(graph, &operation, dependencies, place->data, place->count, &node);
    if (node) *place->made = handle_of(node);
    if (node && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
      parameters->alloc.dptr = node->operation.memory->address;
    if (node && parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
      parameters->conditional.phGraph_out = node->operation.conditional->handles;
    free(dependencies);
  });
}

CUresult tsr_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies,
                               const CUgraphEdgeData *dependencyData, size_t numDependencies,
                               CUgraphNodeParams *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams copy = *nodeParams;
  const struct place place = {phGraphNode, hGraph, dependencies, dependencyData, numDependencies};
  const CUresult result = add(&place, &copy);
  if (result == CUDA_SUCCESS && copy.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    nodeParams->alloc.dptr = copy.alloc.dptr;
  if (result == CUDA_SUCCESS && copy.type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    nodeParams->conditional.phGraph_out = copy.conditional.phGraph_out;
  return result;
}

CUresult tsr_cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies,
                               const CUgraphEdgeData *dependencyData, size_t numDependencies,
                               CUgraphNodeParams *nodeParams) {
  return tsr_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                               nodeParams);
}

CUresult tsr_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                            const CUgraphNode *dependencies, size_t numDependencies,
                            CUgraphNodeParams *nodeParams) {
  return tsr_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                               nodeParams);
}

#define PLACE {phGraphNode, hGraph, dependencies, NULL, numDependencies}

CUresult tsr_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies,
                                     const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *nodeParams};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
  if (!copyParams) return CUDA_ERROR_INVALID_VALUE;
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                   .copy = {.copyCtx = ctx, .copyParams = *copyParams}};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
  if (!memsetParams) return CUDA_ERROR_INVALID_VALUE;
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                   .set = {.set = *memsetParams, .ctx = ctx}};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t numDependencies,
                                const CUDA_HOST_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_HOST, .host.host = *nodeParams};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      CUgraph childGraph) {
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = childGraph};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies) {
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                       const CUgraphNode *dependencies, size_t numDependencies,
                                       CUevent event) {
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .event.event = event};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies,
                                     CUevent event) {
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .event.event = event};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp = *nodeParams};
  return add(&place, &given);
}

CUresult tsr_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                    const CUgraphNode *dependencies, size_t numDependencies,
                                    CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = *nodeParams};
  const CUresult result = add(&place, &given);
  if (result == CUDA_SUCCESS) nodeParams->dptr = given.alloc.dptr;
  return result;
}

CUresult tsr_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                   const CUgraphNode *dependencies, size_t numDependencies,
                                   CUdeviceptr dptr) {
  const struct place place = PLACE;
  CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = dptr};
  return add(&place, &given);
}

/* Whether a capture adds nodes to a graph inside the node. */
static bool is_captured_inside(const struct tsr_node *node) {
  const struct tsr_graph *inner;
  for (uint32_t i = 0; (inner = tsr_inner_graph(&node->operation, i)); i++)
    if (tsr_graph_has_captures(inner)) return true;
  return false;
}

CUresult tsr_cuGraphDestroyNode(CUgraphNode hNode) {
  TSR_LOCKED({
    struct tsr_node *node = TSR_NODE_OF(hNode);
    if (!node || node->graph->captures || is_captured_inside(node))
      result = CUDA_ERROR_INVALID_VALUE;
    else if (tsr_graph_has_memory(node->graph))
      result = CUDA_ERROR_NOT_SUPPORTED;
    else
      tsr_graph_remove(node);
  });
}

/* Replace a node's parameters by others of the same type. */
static CUresult set(CUgraphNode handle, const CUgraphNodeParams *parameters) {
  struct tsr_operation operation;
  TSR_LOCKED({
    struct tsr_node *node = TSR_NODE_OF(handle);
    if (!node || node->operation.type != parameters->type ||
        parameters->type == CU_GRAPH_NODE_TYPE_GRAPH ||
        parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
        parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
      result = CUDA_ERROR_INVALID_VALUE;
    else
      result = tsr_describe(&operation, node->graph, parameters);
    if (result == CUDA_SUCCESS) {
      if (operation.type == CU_GRAPH_NODE_TYPE_KERNEL)
        tsr_keep_settings(&operation, &node->operation);
      tsr_operation_discard(&node->operation);
      node->operation = operation;
    }
  });
}

CUresult tsr_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams copy = *nodeParams;
  return set(hNode, &copy);
}

CUresult tsr_cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  return tsr_cuGraphNodeSetParams(hNode, nodeParams);
}

CUresult tsr_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *nodeParams};
  return set(hNode, &given);
}

/* The context of a copy or fill stays the same. */
static CUcontext context_of(CUgraphNode handle) {
  tsr_graphs_lock();
  const struct tsr_node *node = TSR_NODE_OF(handle);
  CUcontext context = node ? (CUcontext)(uintptr_t)node->operation.context : NULL;
  tsr_graphs_unlock();
  return context;
}

CUresult tsr_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {
      .type = CU_GRAPH_NODE_TYPE_MEMCPY,
      .copy = {.copyCtx = context_of(hNode), .copyParams = *nodeParams}};
  return set(hNode, &given);
}

CUresult tsr_cuGraphMemsetNodeSetParams(CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                   .set = {.set = *nodeParams, .ctx = context_of(hNode)}};
  return set(hNode, &given);
}

CUresult tsr_cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_HOST, .host.host = *nodeParams};
  return set(hNode, &given);
}

CUresult tsr_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .event.event = event};
  return set(hNode, &given);
}

CUresult tsr_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .event.event = event};
  return set(hNode, &given);
}

CUresult tsr_cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp = *nodeParams};
  return set(hNode, &given);
}
