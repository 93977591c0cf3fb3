#include "nodes/graph.h"

#include <stdlib.h>
#include <string.h>

static uint32_t next_graph_id; /* guarded by the graphs' lock */

struct tsr_graph *tsr_graph_new(void) {
  struct tsr_graph *graph = tsr_object_new(TSR_GRAPH);
  if (!graph) return NULL;
  graph->id = ++next_graph_id;
  tsr_object_publish(TSR_GRAPH, graph);
  return graph;
}

void tsr_operation_discard(struct tsr_operation *operation) {
  struct tsr_graph *inner;
  for (uint32_t i = 0; (inner = tsr_inner_graph(operation, i)); i++) tsr_graph_free(inner);
  tsr_operation_clear(operation);
}

/* Give a graph that was to become a child as a whole back to the program. */
static void return_child(struct tsr_operation *operation) {
  struct tsr_graph *child = tsr_inner_graph(operation, 0);
  if (operation->type != CU_GRAPH_NODE_TYPE_GRAPH || !child || !child->moved) return;
  child->moved = false;
  child->owner = NULL;
  operation->child = NULL;
}

static void free_node(struct tsr_node *node) {
  tsr_object_retire(TSR_NODE, tsr_object_handle(TSR_NODE, node));
  tsr_operation_discard(&node->operation);
  free(node->before.list);
  free(node->after.list);
  tsr_object_free(TSR_NODE, node);
}

void tsr_graph_free(struct tsr_graph *graph) {
  tsr_object_retire(TSR_GRAPH, tsr_object_handle(TSR_GRAPH, graph));
  for (uint32_t i = 0; i < graph->count; i++) free_node(graph->nodes[i]);
  for (uint32_t i = 0; i < graph->held_count; i++)
    tsr_user_object_release(graph->held[i].object, graph->held[i].references);
  while (graph->conditions) {
    struct tsr_condition *condition = graph->conditions;
    graph->conditions = condition->next;
    tsr_condition_release(condition);
  }
  free(graph->nodes);
  free(graph->held);
  tsr_object_free(TSR_GRAPH, graph);
}

static CUresult append(struct tsr_graph *graph, struct tsr_node *node) {
  if (graph->count == graph->room) {
    const uint32_t room = graph->room ? 2 * graph->room : 16;
    struct tsr_node **nodes = realloc(graph->nodes, room * sizeof(struct tsr_node *));
    if (!nodes) return CUDA_ERROR_OUT_OF_MEMORY;
    graph->nodes = nodes;
    graph->room = room;
  }
  node->graph = graph;
  node->index = graph->count;
  node->id = graph->next_id++;
  graph->nodes[graph->count++] = node;
  return CUDA_SUCCESS;
}

CUresult tsr_graph_add(struct tsr_graph *graph, struct tsr_operation *operation,
                       struct tsr_node *const *dependencies, const CUgraphEdgeData *data,
                       size_t count, struct tsr_node **made) {
  struct tsr_node *node = tsr_object_new(TSR_NODE);
  if (!node) {
    return_child(operation);
    tsr_operation_discard(operation);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  node->operation = *operation;
  tsr_object_publish(TSR_NODE, node);
  CUresult result = append(graph, node);
  if (result != CUDA_SUCCESS) {
    return_child(&node->operation);
    free_node(node);
    return result;
  }
  struct tsr_graph *inner;
  for (uint32_t i = 0; (inner = tsr_inner_graph(operation, i)); i++) inner->owner = node;
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
    result = tsr_edge_add(dependencies[i], node, data ? &data[i] : NULL);
  if (result != CUDA_SUCCESS) {
    return_child(&node->operation);
    tsr_graph_remove(node);
  } else {
    *made = node;
  }
  return result;
}

void tsr_graph_remove(struct tsr_node *node) {
  struct tsr_graph *graph = node->graph;
  while (node->before.count)
    tsr_edge_remove(node->before.list[0].node, node, &node->before.list[0].data);
  while (node->after.count)
    tsr_edge_remove(node, node->after.list[0].node, &node->after.list[0].data);
  graph->count--;
  memmove(&graph->nodes[node->index], &graph->nodes[node->index + 1],
          (graph->count - node->index) * sizeof(struct tsr_node *));
  for (uint32_t i = node->index; i < graph->count; i++) graph->nodes[i]->index = i;
  free_node(node);
}

bool tsr_graph_any_inner(const struct tsr_graph *graph, bool (*has)(const struct tsr_graph *)) {
  const struct tsr_graph *inner;
  for (uint32_t i = 0; i < graph->count; i++)
    for (uint32_t j = 0; (inner = tsr_inner_graph(&graph->nodes[i]->operation, j)); j++)
      if (has(inner)) return true;
  return false;
}

bool tsr_graph_has_conditions(const struct tsr_graph *graph) {
  for (uint32_t i = 0; i < graph->count; i++)
    if (graph->nodes[i]->operation.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return true;
  return graph->conditions || tsr_graph_any_inner(graph, tsr_graph_has_conditions);
}

bool tsr_graph_has_objects(const struct tsr_graph *graph) {
  return graph->held_count != 0 || tsr_graph_any_inner(graph, tsr_graph_has_objects);
}

bool tsr_graph_has_captures(const struct tsr_graph *graph) {
  return graph->captures != 0 || tsr_graph_any_inner(graph, tsr_graph_has_captures);
}

static CUresult clone_inner(struct tsr_operation *to, const struct tsr_operation *from) {
  const struct tsr_graph *inner;
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; result == CUDA_SUCCESS && (inner = tsr_inner_graph(from, i)); i++) {
    struct tsr_graph *clone = NULL;
    result = tsr_graph_clone(inner, &clone);
    if (clone && from->type == CU_GRAPH_NODE_TYPE_GRAPH) to->child = clone;
    if (clone && from->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
      tsr_conditional_set_body(to->conditional, i, clone);
  }
  return result;
}

static CUresult clone_nodes(const struct tsr_graph *from, struct tsr_graph *to) {
  for (uint32_t i = 0; i < from->count; i++) {
    const struct tsr_node *node = from->nodes[i];
    struct tsr_operation operation;
    CUresult result = tsr_operation_copy(&operation, &node->operation);
    if (result != CUDA_SUCCESS) return result;
    result = clone_inner(&operation, &node->operation);
    if (result != CUDA_SUCCESS) {
      tsr_operation_discard(&operation);
      return result;
    }
    struct tsr_node *made;
    result = tsr_graph_add(to, &operation, NULL, NULL, 0, &made);
    if (result != CUDA_SUCCESS) return result;
    made->origin = tsr_object_handle(TSR_NODE, node);
    made->id = node->id;
    made->disabled = node->disabled;
  }
  to->next_id = from->next_id;
  return CUDA_SUCCESS;
}

CUresult tsr_graph_clone(const struct tsr_graph *from, struct tsr_graph **clone) {
  struct tsr_graph *made = tsr_graph_new();
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->origin = tsr_object_handle(TSR_GRAPH, from);
  CUresult result = clone_nodes(from, made);
  for (uint32_t i = 0; i < from->count && result == CUDA_SUCCESS; i++) {
    const struct tsr_edges *before = &from->nodes[i]->before;
    for (uint32_t j = 0; j < before->count && result == CUDA_SUCCESS; j++)
      result = tsr_edge_add(made->nodes[before->list[j].node->index], made->nodes[i],
                            &before->list[j].data);
  }
  for (uint32_t i = 0; i < from->held_count && result == CUDA_SUCCESS; i++) {
    from->held[i].object->references += from->held[i].references;
    result = tsr_graph_hold(made, from->held[i].object, from->held[i].references);
  }
  if (result != CUDA_SUCCESS)
    tsr_graph_free(made);
  else
    *clone = made;
  return result;
}
