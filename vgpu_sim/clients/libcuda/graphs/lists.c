#include "graphs/lists.h"

#include <stdlib.h>

#include "api.h"
#include "graphs/locked.h"

CUresult tsr_nodes_find(const CUgraphNode *handles, size_t count, struct tsr_node ***nodes) {
  *nodes = NULL;
  if (count > TSR_MOST_DEPENDENCIES || (count && !handles)) return CUDA_ERROR_INVALID_VALUE;
  *nodes = calloc(count + 1, sizeof(struct tsr_node *));
  if (!*nodes) return CUDA_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < count; i++) {
    (*nodes)[i] = TSR_NODE_OF(handles[i]);
    if (!(*nodes)[i]) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/* A list that is being written to the caller's arrays, which may be NULL to learn the length. */
struct writer {
  CUgraphNode *first, *second;
  CUgraphEdgeData *data;
  size_t room, count;
  bool lossy; /* data was left out that is not the default */
};

static CUgraphNode handle_of(const struct tsr_node *node) {
  return (CUgraphNode)(uintptr_t)tsr_object_handle(TSR_NODE, node);
}

static void write_one(struct writer *writer, const struct tsr_node *first,
                      const struct tsr_node *second, const CUgraphEdgeData *data) {
  const size_t i = writer->count++;
  if (i >= writer->room) return;
  if (writer->first) writer->first[i] = handle_of(first);
  if (writer->second) writer->second[i] = handle_of(second);
  if (writer->data)
    writer->data[i] = *data;
  else if (data && (data->from_port || data->type))
    writer->lossy = true;
}

/* Entries beyond the list are set to NULL; the length written is returned. */
static CUresult finish(struct writer *writer, size_t *number) {
  const bool counts_only = !writer->first && !writer->second && !writer->data;
  if (!counts_only)
    for (size_t i = writer->count; i < writer->room; i++) {
      if (writer->first) writer->first[i] = NULL;
      if (writer->second) writer->second[i] = NULL;
    }
  if (counts_only || writer->count < writer->room) *number = writer->count;
  return writer->lossy ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

static CUresult list_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_graph *graph = TSR_GRAPH_OF(handle);
    struct writer writer = {.first = nodes, .room = nodes ? *count : 0};
    for (uint32_t i = 0; graph && i < graph->count; i++)
      if (!roots || graph->nodes[i]->before.count == 0)
        write_one(&writer, graph->nodes[i], NULL, NULL);
    result = graph ? finish(&writer, count) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
  return list_nodes(hGraph, nodes, numNodes, false);
}

CUresult tsr_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
  return list_nodes(hGraph, rootNodes, numRootNodes, true);
}

CUresult tsr_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                                CUgraphEdgeData *edgeData, size_t *numEdges) {
  if (!numEdges || !from != !to || (edgeData && !from)) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_graph *graph = TSR_GRAPH_OF(hGraph);
    struct writer writer = {
        .first = from, .second = to, .data = edgeData, .room = from ? *numEdges : 0};
    for (uint32_t i = 0; graph && i < graph->count; i++)
      for (uint32_t j = 0; j < graph->nodes[i]->after.count; j++) {
        const struct tsr_edge *edge = &graph->nodes[i]->after.list[j];
        write_one(&writer, graph->nodes[i], edge->node, &edge->data);
      }
    result = graph ? finish(&writer, numEdges) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                             size_t *numEdges) {
  return tsr_cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

static CUresult list_neighbours(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
                                size_t *count, bool before) {
  if (!count || (data && !nodes)) return CUDA_ERROR_INVALID_VALUE;
  TSR_LOCKED({
    const struct tsr_node *node = TSR_NODE_OF(handle);
    struct writer writer = {.first = nodes, .data = data, .room = nodes ? *count : 0};
    const struct tsr_edges *edges = node ? before ? &node->before : &node->after : NULL;
    for (uint32_t i = 0; edges && i < edges->count; i++)
      write_one(&writer, edges->list[i].node, NULL, &edges->list[i].data);
    result = node ? finish(&writer, count) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult tsr_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                           CUgraphEdgeData *edgeData, size_t *numDependencies) {
  return list_neighbours(hNode, dependencies, edgeData, numDependencies, true);
}

CUresult tsr_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                        size_t *numDependencies) {
  return list_neighbours(hNode, dependencies, NULL, numDependencies, true);
}

CUresult tsr_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                             CUgraphEdgeData *edgeData,
                                             size_t *numDependentNodes) {
  return list_neighbours(hNode, dependentNodes, edgeData, numDependentNodes, false);
}

CUresult tsr_cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                          size_t *numDependentNodes) {
  return list_neighbours(hNode, dependentNodes, NULL, numDependentNodes, false);
}

typedef CUresult change(struct tsr_node *, struct tsr_node *, const CUgraphEdgeData *);
static const CUgraphEdgeData whole;

/* Apply a change to each edge; after a failure undo the earlier ones by `undo`. */
static CUresult change_edges(const struct tsr_graph *graph, struct tsr_node **from,
                             struct tsr_node **to, const CUgraphEdgeData *data, size_t count,
                             change *apply, change *undo) {
  for (size_t i = 0; i < count; i++) {
    const CUgraphEdgeData *one = data ? &data[i] : &whole;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (from[i]->graph == graph && to[i]->graph == graph) result = apply(from[i], to[i], one);
    if (result == CUDA_SUCCESS) continue;
    while (i-- > 0) undo(from[i], to[i], data ? &data[i] : &whole);
    return result;
  }
  return CUDA_SUCCESS;
}

static CUresult change_dependencies(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                                    const CUgraphEdgeData *data, size_t count, change *apply,
                                    change *undo) {
  struct tsr_node **nodes[2] = {NULL, NULL};
  TSR_LOCKED({
    const struct tsr_graph *graph = TSR_GRAPH_OF(handle);
    result = graph ? tsr_nodes_find(from, count, &nodes[0]) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = tsr_nodes_find(to, count, &nodes[1]);
    if (result == CUDA_SUCCESS && apply == tsr_edge_remove && count && tsr_graph_has_memory(graph))
      result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
      result = change_edges(graph, nodes[0], nodes[1], data, count, apply, undo);
    free(nodes[0]);
    free(nodes[1]);
  });
}

CUresult tsr_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                       const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                       size_t numDependencies) {
  return change_dependencies(hGraph, from, to, edgeData, numDependencies, tsr_edge_add,
                             tsr_edge_remove);
}

CUresult tsr_cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                    size_t numDependencies) {
  return tsr_cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

CUresult tsr_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                          const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                          size_t numDependencies) {
  return change_dependencies(hGraph, from, to, edgeData, numDependencies, tsr_edge_remove,
                             tsr_edge_add);
}

CUresult tsr_cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
                                       const CUgraphNode *to, size_t numDependencies) {
  return tsr_cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}
