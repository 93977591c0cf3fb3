/* Rules of graphs that allocate or free memory (CUDA driver API, cuGraphAddMemAllocNode and
 * cuGraphAddMemFreeNode). What a graph with such nodes cannot do is NOT_SUPPORTED, as with NVIDIA's
 * driver; what frees memory wrongly is INVALID_VALUE. */
#include "memory/graph_memory.h"
#include "nodes/graph.h"

static bool frees(const struct tsr_graph *graph, uint64_t address) {
  for (uint32_t i = 0; i < graph->count; i++) {
    const struct tsr_operation *operation = &graph->nodes[i]->operation;
    if (operation->type == CU_GRAPH_NODE_TYPE_MEM_FREE && operation->freed == address) return true;
  }
  return false;
}

/* A child graph gets no nodes for memory once it is in its parent. */
static CUresult check(const struct tsr_graph *graph, const struct tsr_operation *operation) {
  const bool allocates = operation->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  if (!allocates && operation->type != CU_GRAPH_NODE_TYPE_MEM_FREE) return CUDA_SUCCESS;
  if (graph->owner && graph->owner->operation.type == CU_GRAPH_NODE_TYPE_GRAPH)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (allocates) return CUDA_SUCCESS;
  bool first;
  if (!tsr_graph_memory_may_free(operation->freed, graph->id, &first))
    return CUDA_ERROR_INVALID_VALUE;
  return first || !frees(graph, operation->freed) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_graph_add_new(struct tsr_graph *graph, struct tsr_operation *operation,
                           struct tsr_node *const *dependencies, const CUgraphEdgeData *data,
                           size_t count, struct tsr_node **made) {
  CUresult result = check(graph, operation);
  if (result != CUDA_SUCCESS) {
    tsr_operation_discard(operation);
    return result;
  }
  result = tsr_graph_add(graph, operation, dependencies, data, count, made);
  if (result != CUDA_SUCCESS) return result;
  if (operation->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    tsr_graph_memory_own((*made)->operation.memory, graph->id);
  if (operation->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    tsr_graph_memory_freed_by(operation->freed, graph->id);
  return CUDA_SUCCESS;
}

bool tsr_graph_has_memory(const struct tsr_graph *graph) {
  for (uint32_t i = 0; i < graph->count; i++) {
    const CUgraphNodeType type = graph->nodes[i]->operation.type;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE) return true;
  }
  return tsr_graph_any_inner(graph, tsr_graph_has_memory);
}

bool tsr_graph_has_instantiated_memory(const struct tsr_graph *graph) {
  return (graph->executables && tsr_graph_has_memory(graph)) ||
         tsr_graph_any_inner(graph, tsr_graph_has_instantiated_memory);
}

bool tsr_graph_has_live_memory(const struct tsr_graph *graph) {
  for (uint32_t i = 0; i < graph->count; i++) {
    const struct tsr_operation *operation = &graph->nodes[i]->operation;
    if (operation->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        tsr_graph_memory_is_live(operation->memory))
      return true;
  }
  return tsr_graph_any_inner(graph, tsr_graph_has_live_memory);
}
