/* Changes of executable graphs. */
#include <string.h>

#include "api.h"
#include "graphs/describe.h"
#include "graphs/exec.h"
#include "graphs/locked.h"

#define EXEC_OF(handle) tsr_exec_find((uint64_t)(uintptr_t)(handle))

/* Find the copy of a node of the graph from which the executable graph was made. */
static struct tsr_node *find_copy(const struct tsr_graph *graph, uint64_t origin) {
  for (uint32_t i = 0; i < graph->count; i++) {
    struct tsr_node *node = graph->nodes[i];
    if (node->origin == origin) return node;
    const struct tsr_graph *inner;
    for (uint32_t j = 0; (inner = tsr_inner_graph(&node->operation, j)); j++) {
      struct tsr_node *inside = find_copy(inner, origin);
      if (inside) return inside;
    }
  }
  return NULL;
}

/* Replace a node's operation by another one of the same type and context. */
static CUresult replace(struct tsr_node *node, struct tsr_operation *operation) {
  if (operation->context != node->operation.context) {
    tsr_operation_clear(operation);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (operation->type == CU_GRAPH_NODE_TYPE_KERNEL) tsr_keep_settings(operation, &node->operation);
  tsr_operation_clear(&node->operation);
  node->operation = *operation;
  return CUDA_SUCCESS;
}

static CUresult set(CUgraphExec handle, CUgraphNode node_handle,
                    const CUgraphNodeParams *parameters) {
  struct tsr_operation operation;
  TSR_LOCKED({
    struct tsr_exec *exec = EXEC_OF(handle);
    struct tsr_node *node =
        exec ? find_copy(exec->graph, (uint64_t)(uintptr_t)node_handle) : NULL;
    if (!node || node->operation.type != parameters->type ||
        parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
        parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
      result = CUDA_ERROR_INVALID_VALUE;
    else
      result = tsr_describe(&operation, node->graph, parameters);
    if (result == CUDA_SUCCESS) result = replace(node, &operation);
    if (result == CUDA_SUCCESS) exec->lists_are_stale = true;
  });
}

CUresult tsr_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      CUgraphNodeParams *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams copy = *nodeParams;
  if (copy.type == CU_GRAPH_NODE_TYPE_GRAPH)
    return tsr_cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode, copy.graph.graph);
  return set(hGraphExec, hNode, &copy);
}

CUresult tsr_cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *nodeParams};
  return set(hGraphExec, hNode, &given);
}

CUresult tsr_cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
  if (!copyParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                   .copy = {.copyCtx = ctx, .copyParams = *copyParams}};
  return set(hGraphExec, hNode, &given);
}

CUresult tsr_cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                            CUcontext ctx) {
  if (!memsetParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                   .set = {.set = *memsetParams, .ctx = ctx}};
  return set(hGraphExec, hNode, &given);
}

CUresult tsr_cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          const CUDA_HOST_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_HOST, .host.host = *nodeParams};
  return set(hGraphExec, hNode, &given);
}

CUresult tsr_cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                CUevent event) {
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .event.event = event};
  return set(hGraphExec, hNode, &given);
}

CUresult tsr_cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              CUevent event) {
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .event.event = event};
  return set(hGraphExec, hNode, &given);
}

CUresult tsr_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams given = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp = *nodeParams};
  return set(hGraphExec, hNode, &given);
}

struct difference {
  CUgraphExecUpdateResult result;
  const struct tsr_node *node, *from;
};

static bool same_edges(const struct tsr_node *a, const struct tsr_node *b) {
  if (a->before.count != b->before.count) return false;
  for (uint32_t i = 0; i < a->before.count; i++) {
    bool found = false;
    for (uint32_t j = 0; j < b->before.count && !found; j++)
      found = a->before.list[i].node->index == b->before.list[j].node->index &&
              memcmp(&a->before.list[i].data, &b->before.list[j].data, sizeof(CUgraphEdgeData)) == 0;
    if (!found) return false;
  }
  return true;
}

static bool same_conditionals(const struct tsr_operation *a, const struct tsr_operation *b) {
  return a->type != CU_GRAPH_NODE_TYPE_CONDITIONAL ||
         (a->conditional->kind == b->conditional->kind &&
          a->conditional->count == b->conditional->count);
}

/* Compare two graphs whose nodes were added in the same order. */
static bool is_like(const struct tsr_graph *now, const struct tsr_graph *wanted,
                    struct difference *difference) {
  difference->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (now->count != wanted->count) return false;
  for (uint32_t i = 0; i < now->count; i++) {
    const struct tsr_node *a = now->nodes[i], *b = wanted->nodes[i];
    difference->node = b;
    difference->result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (a->operation.type != b->operation.type) return false;
    difference->result = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (a->operation.context != b->operation.context ||
        !same_conditionals(&a->operation, &b->operation))
      return false;
    difference->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (!same_edges(a, b)) return false;
    const struct tsr_graph *inner;
    for (uint32_t j = 0; (inner = tsr_inner_graph(&a->operation, j)); j++)
      if (!is_like(inner, tsr_inner_graph(&b->operation, j), difference)) return false;
  }
  difference->node = NULL;
  difference->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return true;
}

/* Nodes keep their origins, by which the program names them, and whether they are enabled. */
static void keep_names(struct tsr_graph *to, const struct tsr_graph *from) {
  for (uint32_t i = 0; i < to->count; i++) {
    to->nodes[i]->origin = from->nodes[i]->origin;
    to->nodes[i]->disabled = from->nodes[i]->disabled;
    struct tsr_graph *inner;
    for (uint32_t j = 0; (inner = tsr_inner_graph(&to->nodes[i]->operation, j)); j++)
      keep_names(inner, tsr_inner_graph(&from->nodes[i]->operation, j));
  }
}

/* Put a graph of the same shape in place of the executable graph's own. */
static CUresult exchange(struct tsr_exec *exec, const struct tsr_graph *wanted) {
  struct tsr_graph *clone;
  CUresult result = tsr_graph_clone(wanted, &clone);
  if (result != CUDA_SUCCESS) return result;
  keep_names(clone, exec->graph);
  struct tsr_graph *old = exec->graph;
  exec->graph = clone;
  exec->lists_are_stale = true;
  result = tsr_exec_plan(exec);
  tsr_exec_drop_graph(exec, old);
  return result;
}

CUresult tsr_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                  CUgraphExecUpdateResultInfo *resultInfo) {
  if (!resultInfo) return CUDA_ERROR_INVALID_VALUE;
  struct difference difference = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
  TSR_LOCKED({
    struct tsr_exec *exec = EXEC_OF(hGraphExec);
    const struct tsr_graph *graph = TSR_GRAPH_OF(hGraph);
    if (!exec || !graph || graph->moved)
      result = CUDA_ERROR_INVALID_VALUE;
    else if (!is_like(exec->graph, graph, &difference))
      result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    else
      result = exchange(exec, graph);
    *resultInfo = (CUgraphExecUpdateResultInfo){.result = difference.result};
    if (difference.node)
      resultInfo->errorNode =
          (CUgraphNode)(uintptr_t)tsr_object_handle(TSR_NODE, difference.node);
  });
}

CUresult tsr_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                               CUgraphExecUpdateResult *updateResult_out) {
  CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
  const CUresult result = tsr_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  if (hErrorNode_out) *hErrorNode_out = info.errorNode;
  if (updateResult_out) *updateResult_out = info.result;
  return result;
}

static CUresult exchange_child(struct tsr_exec *exec, struct tsr_node *node,
                               const struct tsr_graph *wanted) {
  struct difference difference;
  if (!is_like(node->operation.child, wanted, &difference)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_graph *clone;
  CUresult result = tsr_graph_clone(wanted, &clone);
  if (result != CUDA_SUCCESS) return result;
  keep_names(clone, node->operation.child);
  struct tsr_graph *old = node->operation.child;
  node->operation.child = clone;
  clone->owner = node;
  exec->lists_are_stale = true;
  result = tsr_exec_plan(exec);
  tsr_exec_drop_graph(exec, old);
  return result;
}

CUresult tsr_cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                CUgraph childGraph) {
  TSR_LOCKED({
    struct tsr_exec *exec = EXEC_OF(hGraphExec);
    struct tsr_node *node = exec ? find_copy(exec->graph, (uint64_t)(uintptr_t)hNode) : NULL;
    const struct tsr_graph *graph = TSR_GRAPH_OF(childGraph);
    if (!node || !graph || node->operation.type != CU_GRAPH_NODE_TYPE_GRAPH)
      result = CUDA_ERROR_INVALID_VALUE;
    else
      result = exchange_child(exec, node, graph);
  });
}

/* Only kernels, copies and fills can be disabled. */
static struct tsr_node *find_switchable(CUgraphExec handle, CUgraphNode node_handle,
                                        struct tsr_exec **exec) {
  *exec = EXEC_OF(handle);
  struct tsr_node *node =
      *exec ? find_copy((*exec)->graph, (uint64_t)(uintptr_t)node_handle) : NULL;
  return node && node->operation.type <= CU_GRAPH_NODE_TYPE_MEMSET ? node : NULL;
}

CUresult tsr_cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                   unsigned int isEnabled) {
  struct tsr_exec *exec = NULL;
  TSR_LOCKED({
    struct tsr_node *node = find_switchable(hGraphExec, hNode, &exec);
    result = node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (node) {
      node->disabled = !isEnabled;
      exec->lists_are_stale = true;
    }
  });
}

CUresult tsr_cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                   unsigned int *isEnabled) {
  if (!isEnabled) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_exec *exec = NULL;
  TSR_LOCKED({
    const struct tsr_node *node = find_switchable(hGraphExec, hNode, &exec);
    result = node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (node) *isEnabled = !node->disabled;
  });
}
