/* What a node is, and with which parameters. */
#include <string.h>

#include "api.h"
#include "graphs/describe.h"
#include "graphs/locked.h"
#include "launching/launch.h"
#include "memory/graph_memory.h"

/* Run the statements with the node of a handle and type; INVALID_VALUE: there is none. */
#define WITH_NODE(handle, kind, out, ...)                                      \
  if (!(out)) return CUDA_ERROR_INVALID_VALUE;                                 \
  TSR_LOCKED({                                                                 \
    struct tsr_node *node = TSR_NODE_OF(handle);                               \
    if (!node || ((int)(kind) >= 0 && (int)node->operation.type != (int)(kind))) \
      result = CUDA_ERROR_INVALID_VALUE;                                       \
    else                                                                       \
      __VA_ARGS__;                                                             \
  })

enum { ANY = -1 };

CUresult tsr_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
  WITH_NODE(hNode, ANY, type, *type = node->operation.type);
}

CUresult tsr_cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph) {
  WITH_NODE(hNode, ANY, phGraph,
            *phGraph = (CUgraph)(uintptr_t)tsr_object_handle(TSR_GRAPH, node->graph));
}

CUresult tsr_cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int *nodeId) {
  WITH_NODE(hNode, ANY, nodeId, *nodeId = node->id);
}

CUresult tsr_cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long *toolsNodeId) {
  WITH_NODE(hNode, ANY, toolsNodeId, *toolsNodeId = (uint64_t)node->graph->id << 32 | node->id);
}

CUresult tsr_cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  WITH_NODE(hNode, ANY, nodeParams, result = tsr_parameters_of(&node->operation, nodeParams));
}

CUresult tsr_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
                                           CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams,
            *nodeParams = tsr_kernel_parameters(&node->operation));
}

CUresult tsr_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams, *nodeParams = node->operation.copy);
}

CUresult tsr_cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, *nodeParams = node->operation.set);
}

CUresult tsr_cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams, *nodeParams = node->operation.host);
}

CUresult tsr_cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out,
            *event_out = (CUevent)(uintptr_t)node->operation.event);
}

CUresult tsr_cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out,
            *event_out = (CUevent)(uintptr_t)node->operation.event);
}

CUresult tsr_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_GRAPH, phGraph,
            *phGraph = (CUgraph)(uintptr_t)tsr_object_handle(TSR_GRAPH, node->operation.child));
}

CUresult tsr_cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
                                            CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams_out, {
    CUgraphNodeParams all;
    result = tsr_parameters_of(&node->operation, &all);
    *nodeParams_out = all.memOp;
  });
}

CUresult tsr_cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
                                          CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params_out,
            *params_out = node->operation.memory->parameters);
}

CUresult tsr_cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, dptr_out, *dptr_out = node->operation.freed);
}

CUresult tsr_cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                    CUgraph hClonedGraph) {
  if (!phNode) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_graph *graph = TSR_GRAPH_OF(hClonedGraph);
    result = CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; graph && i < graph->count; i++) {
      if (graph->nodes[i]->origin != (uint64_t)(uintptr_t)hOriginalNode) continue;
      *phNode = (CUgraphNode)(uintptr_t)tsr_object_handle(TSR_NODE, graph->nodes[i]);
      result = CUDA_SUCCESS;
    }
  });
}

/* Attributes of kernel nodes that have an effect; the others have one possible value. */
static CUresult set_attribute(struct tsr_kernel_operation *kernel, CUlaunchAttributeID id,
                              const CUlaunchAttributeValue *value) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      kernel->cooperative = value->number != 0;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: /* clamped to the range, which is 0 to 0 */
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: /* MAX_ACCESS_POLICY_WINDOW_SIZE is 0 */
      return value->window.bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return value->number > 1 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      memcpy(kernel->cluster, value, sizeof kernel->cluster);
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: /* only a hint */
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult get_attribute(const struct tsr_kernel_operation *kernel, CUlaunchAttributeID id,
                              CUlaunchAttributeValue *value) {
  memset(value, 0, sizeof *value);
  const CUresult known = set_attribute(&(struct tsr_kernel_operation){0}, id, value);
  if (known == CUDA_SUCCESS && id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
    value->number = kernel->cooperative;
  if (known == CUDA_SUCCESS && id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    memcpy(value, kernel->cluster, sizeof kernel->cluster);
  return known;
}

/* Set an attribute of a node if its launch can have the value. The launch is checked again when the graph
 * is launched, because the limits of a function may change. */
static CUresult set_checked(struct tsr_operation *operation, CUlaunchAttributeID id,
                            const CUlaunchAttributeValue *value) {
  struct tsr_kernel_operation changed = operation->kernel;
  CUresult result = set_attribute(&changed, id, value);
  if (result == CUDA_SUCCESS && id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, operation->context);
    if (context) result = tsr_launch_check_node(context, &changed);
  }
  if (result == CUDA_SUCCESS) operation->kernel = changed;
  return result;
}

CUresult tsr_cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUlaunchAttributeID attr,
                                           const CUlaunchAttributeValue *value) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_KERNEL, value,
            result = set_checked(&node->operation, attr, value));
}

CUresult tsr_cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUlaunchAttributeID attr,
                                           CUlaunchAttributeValue *value_out) {
  WITH_NODE(hNode, CU_GRAPH_NODE_TYPE_KERNEL, value_out,
            result = get_attribute(&node->operation.kernel, attr, value_out));
}

CUresult tsr_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  WITH_NODE(dst, CU_GRAPH_NODE_TYPE_KERNEL, dst, {
    const struct tsr_node *from = TSR_NODE_OF(src);
    if (!from || from->operation.type != CU_GRAPH_NODE_TYPE_KERNEL)
      result = CUDA_ERROR_INVALID_VALUE;
    else
      tsr_keep_settings(&node->operation, &from->operation);
  });
}
