/* Edges between nodes, and the order that they require. */
#include <stdlib.h>
#include <string.h>

#include "nodes/graph.h"

static CUresult reserve(struct tsr_edges *edges) {
  if (edges->count < edges->room) return CUDA_SUCCESS;
  const uint32_t room = edges->room ? 2 * edges->room : 4;
  struct tsr_edge *list = realloc(edges->list, room * sizeof *list);
  if (!list) return CUDA_ERROR_OUT_OF_MEMORY;
  edges->list = list;
  edges->room = room;
  return CUDA_SUCCESS;
}

static int64_t find(const struct tsr_edges *edges, const struct tsr_node *node,
                    const CUgraphEdgeData *data) {
  for (uint32_t i = 0; i < edges->count; i++)
    if (edges->list[i].node == node && memcmp(&edges->list[i].data, data, sizeof *data) == 0)
      return i;
  return -1;
}

static void drop(struct tsr_edges *edges, int64_t index) {
  if (index < 0) return;
  edges->count--;
  memmove(&edges->list[index], &edges->list[index + 1],
          (edges->count - (uint32_t)index) * sizeof *edges->list);
}

/* Only kernels have other ports than 0, and only for programmatic edges to kernels. */
static bool is_valid(const struct tsr_node *from, const struct tsr_node *to,
                     const CUgraphEdgeData *data) {
  static const unsigned char zeros[sizeof data->reserved];
  if (data->to_port || memcmp(data->reserved, zeros, sizeof zeros) != 0) return false;
  if (data->type == 0 && data->from_port == 0) return true;
  return data->type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
         data->from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER &&
         from->operation.type == CU_GRAPH_NODE_TYPE_KERNEL &&
         to->operation.type == CU_GRAPH_NODE_TYPE_KERNEL;
}

/* Whether `to` can be reached from `from`; marks of all nodes must be 0, and are afterwards. */
static bool reaches(struct tsr_node *from, const struct tsr_node *to) {
  struct tsr_graph *graph = from->graph;
  struct tsr_node **stack = malloc((graph->count + 1) * sizeof(struct tsr_node *));
  if (!stack) return true;
  uint32_t depth = 0;
  bool found = false;
  stack[depth++] = from;
  from->mark = 1;
  while (depth > 0 && !found) {
    struct tsr_node *node = stack[--depth];
    found = node == to;
    for (uint32_t i = 0; i < node->after.count; i++) {
      struct tsr_node *next = node->after.list[i].node;
      if (next->mark) continue;
      next->mark = 1;
      stack[depth++] = next;
    }
  }
  free(stack);
  for (uint32_t i = 0; i < graph->count; i++) graph->nodes[i]->mark = 0;
  return found;
}

CUresult tsr_edge_add(struct tsr_node *from, struct tsr_node *to, const CUgraphEdgeData *data) {
  static const CUgraphEdgeData whole;
  if (!data) data = &whole;
  if (!from || !to || from->graph != to->graph || !is_valid(from, to, data))
    return CUDA_ERROR_INVALID_VALUE;
  if (find(&from->after, to, data) >= 0) return CUDA_ERROR_INVALID_VALUE;
  if (to->after.count && reaches(to, from)) return CUDA_ERROR_INVALID_VALUE;
  if (from == to) return CUDA_ERROR_INVALID_VALUE;
  if (reserve(&from->after) != CUDA_SUCCESS || reserve(&to->before) != CUDA_SUCCESS)
    return CUDA_ERROR_OUT_OF_MEMORY;
  from->after.list[from->after.count++] = (struct tsr_edge){.node = to, .data = *data};
  to->before.list[to->before.count++] = (struct tsr_edge){.node = from, .data = *data};
  return CUDA_SUCCESS;
}

CUresult tsr_edge_remove(struct tsr_node *from, struct tsr_node *to,
                         const CUgraphEdgeData *data) {
  static const CUgraphEdgeData whole;
  if (!data) data = &whole;
  if (!from || !to) return CUDA_ERROR_INVALID_VALUE;
  const int64_t at = find(&from->after, to, data);
  if (at < 0) return CUDA_ERROR_INVALID_VALUE;
  drop(&from->after, at);
  drop(&to->before, find(&to->before, from, data));
  return CUDA_SUCCESS;
}

CUresult tsr_graph_sort(const struct tsr_graph *graph, struct tsr_node **order) {
  uint32_t filled = 0;
  for (uint32_t i = 0; i < graph->count; i++) {
    struct tsr_node *node = graph->nodes[i];
    node->mark = node->before.count;
    if (node->mark == 0) order[filled++] = node;
  }
  for (uint32_t done = 0; done < filled; done++)
    for (uint32_t i = 0; i < order[done]->after.count; i++) {
      struct tsr_node *next = order[done]->after.list[i].node;
      if (--next->mark == 0) order[filled++] = next;
    }
  for (uint32_t i = 0; i < graph->count; i++) graph->nodes[i]->mark = 0;
  return filled == graph->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
