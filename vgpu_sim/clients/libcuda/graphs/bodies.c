#include "graphs/bodies.h"

#include <stdlib.h>
#include <string.h>

#include "base/refuse.h"
#include "copies/copy.h"
#include "exchange/list.h"
#include "exchange/ring.h"
#include "graphs/conditional.h"
#include "graphs/run.h"
#include "graphs/shapes.h"
#include "memory/memory.h"
#include "modules/function.h"

static bool is_listable(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_GRAPH ||
         type == CU_GRAPH_NODE_TYPE_EMPTY || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

static struct tsr_node *find_unlistable(const struct tsr_graph *graph, bool is_body) {
  for (uint32_t i = 0; i < graph->count; i++) {
    struct tsr_node *node = graph->nodes[i];
    const struct tsr_graph *inner;
    const bool bodies = is_body || node->operation.type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    if (is_body && !is_listable(node->operation.type)) return node;
    for (uint32_t j = 0; (inner = tsr_inner_graph(&node->operation, j)); j++) {
      struct tsr_node *found = find_unlistable(inner, bodies);
      if (found) return found;
    }
  }
  return NULL;
}

struct tsr_node *tsr_find_unlistable(const struct tsr_graph *graph) {
  return find_unlistable(graph, false);
}

static bool is_pageable(uint64_t address) {
  struct tsr_end end;
  return tsr_locate_any(address, 1, &end) != CUDA_SUCCESS || !end.context;
}

/* CUDA C++ Programming Guide, "Device Graph Creation": memory of the device, or pinned. */
static bool is_launchable_copy(const CUDA_MEMCPY3D *copy) {
  uint64_t to, from;
  struct tsr_copy_shape shape;
  if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY ||
      tsr_shape_of(copy, &shape, &to, &from) != CUDA_SUCCESS)
    return false;
  return !is_pageable(to) && !is_pageable(from);
}

struct tsr_node *tsr_find_unlaunchable(const struct tsr_graph *graph) {
  for (uint32_t i = 0; i < graph->count; i++) {
    struct tsr_node *node = graph->nodes[i];
    const CUgraphNodeType type = node->operation.type;
    if (!is_listable(type) || type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return node;
    /* Two grids of different launches would share the workspace of the barrier. */
    if (type == CU_GRAPH_NODE_TYPE_KERNEL && node->operation.kernel.cooperative) return node;
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY && !is_launchable_copy(&node->operation.copy)) return node;
    if (type != CU_GRAPH_NODE_TYPE_GRAPH) continue;
    struct tsr_node *found = tsr_find_unlaunchable(node->operation.child);
    if (found) return found;
  }
  return NULL;
}

static bool launches_graphs(struct tsr_context *context, uint64_t kernel) {
  uint64_t handle;
  if (tsr_function_resolve(context, kernel, &handle) != CUDA_SUCCESS) return false;
  pthread_mutex_lock(&tsr_module_lock);
  const struct tsr_function *function = tsr_function_find(handle);
  const bool found = function && function->module->launches_graphs;
  pthread_mutex_unlock(&tsr_module_lock);
  return found;
}

bool tsr_graph_launches_graphs(const struct tsr_graph *graph, struct tsr_context *context) {
  for (uint32_t i = 0; i < graph->count; i++) {
    const struct tsr_operation *operation = &graph->nodes[i]->operation;
    if (operation->type == CU_GRAPH_NODE_TYPE_GRAPH
            ? tsr_graph_launches_graphs(operation->child, context)
            : operation->type == CU_GRAPH_NODE_TYPE_KERNEL &&
                  launches_graphs(context, operation->kernel.function))
      return true;
  }
  return false;
}

/* Write a list to device memory, from which the worker reads it. */
static CUresult store(const struct tsr_list *list, struct tsr_context *context,
                      struct tsr_listed *listed) {
  listed->slots = list->count;
  if (list->count == 0) return CUDA_SUCCESS;
  const uint64_t bytes = (uint64_t)list->count * sizeof *list->slots;
  CUresult result = tsr_memory_allocate(context, (struct tsr_sort){.use = TSR_USE_GRAPH}, bytes,
                                        &listed->address);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_end end;
  result = tsr_locate_device(listed->address, bytes, &end);
  if (result == CUDA_SUCCESS) memcpy(end.host, list->slots, bytes);
  return result;
}

static CUresult add_graph(const struct tsr_graph *graph, struct tsr_context *context,
                          uint32_t depth);
static CUresult make(struct tsr_conditional *conditional, struct tsr_context *context,
                     uint32_t depth);

static CUresult add_node(const struct tsr_node *node, struct tsr_context *context,
                         uint32_t depth) {
  const struct tsr_operation *operation = &node->operation;
  if (operation->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return add_graph(operation->child, context, depth);
  if (operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    const CUresult result = make(operation->conditional, context, depth + 1);
    if (result != CUDA_SUCCESS) return result;
  }
  return node->disabled ? CUDA_SUCCESS : tsr_operation_run(operation, context, TSR_LIST_RING);
}

/* Add a body's requests, one after the other, to the list that is recorded. */
static CUresult add_graph(const struct tsr_graph *graph, struct tsr_context *context,
                          uint32_t depth) {
  struct tsr_node **order = malloc((graph->count + 1) * sizeof(struct tsr_node *));
  CUresult result = order ? tsr_graph_sort(graph, order) : CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++)
    result = add_node(order[i], context, depth);
  free(order);
  return result;
}

/* End the recording of a list, continue that of the one before, and store the list unless `result` is an
 * error. */
static CUresult end_list(struct tsr_list *list, struct tsr_list *before, CUresult result,
                         struct tsr_context *context, struct tsr_listed *listed) {
  tsr_list_record(before);
  if (result == CUDA_SUCCESS) result = store(list, context, listed);
  free(list->slots);
  return result;
}

CUresult tsr_graph_list_make(const struct tsr_graph *graph, struct tsr_context *context,
                             struct tsr_listed *listed, bool *cooperative) {
  struct tsr_list list = {0};
  struct tsr_list *before = tsr_list_record(&list);
  const CUresult result = end_list(&list, before, add_graph(graph, context, 0), context, listed);
  *cooperative = list.cooperative;
  return result;
}

/* Add the requests that choose among the bodies. A body may change the value, so the choice is
 * made with a copy of it, the latch; only a loop looks at the value again. */
static CUresult add_choice(const struct tsr_conditional *conditional,
                           struct tsr_context *context) {
  const uint64_t value = conditional->condition->address;
  const bool loops = conditional->kind == CU_GRAPH_COND_TYPE_WHILE;
  const bool compares = conditional->kind == CU_GRAPH_COND_TYPE_SWITCH;
  const uint64_t seen = conditional->count > 1 ? value + TSR_LATCH_OFFSET : value;
  CUresult result = CUDA_SUCCESS;
  if (seen != value)
    result = tsr_copy_enqueue(context, TSR_LIST_RING, seen, value, sizeof(uint32_t));
  for (uint32_t i = 0; i < conditional->count && result == CUDA_SUCCESS; i++) {
    const bool equal = compares || i == 1; /* IF: the second body is for 0 */
    result = tsr_list_enqueue(context, TSR_LIST_RING,
                              &(tessera_list_body){.address = conditional->lists[i].address,
                                           .slots = conditional->lists[i].slots,
                                           .condition = seen,
                                           .value = compares ? i : 0,
                                           .when = equal ? TESSERA_WHEN_EQUAL
                                                         : TESSERA_WHEN_DIFFERENT,
                                           .repeat = loops});
  }
  return result;
}

/* Make one list: of a body, or (`i` is the number of bodies) of the choice among them. */
static CUresult make_list(struct tsr_conditional *conditional, uint32_t i,
                          struct tsr_context *context, uint32_t depth) {
  struct tsr_list list = {0};
  struct tsr_list *before = tsr_list_record(&list);
  const CUresult added = i < conditional->count
                             ? add_graph(conditional->bodies[i], context, depth)
                             : add_choice(conditional, context);
  const CUresult result = end_list(&list, before, added, context, &conditional->lists[i]);
  conditional->cooperative |= list.cooperative;
  return result;
}

static CUresult make(struct tsr_conditional *conditional, struct tsr_context *context,
                     uint32_t depth) {
  if (2 * depth > TESSERA_MAX_LIST_DEPTH)
    TSR_REFUSE("conditional nodes in bodies of more than 15 others");
  tsr_conditional_forget_lists(conditional);
  conditional->cooperative = false;
  conditional->lists = calloc(conditional->count + 1, sizeof *conditional->lists);
  CUresult result = conditional->lists ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i <= conditional->count && result == CUDA_SUCCESS; i++)
    result = make_list(conditional, i, context, depth);
  if (result != CUDA_SUCCESS) tsr_conditional_forget_lists(conditional);
  return result;
}

CUresult tsr_lists_make(const struct tsr_graph *graph, struct tsr_context *context) {
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
    const struct tsr_operation *operation = &graph->nodes[i]->operation;
    if (operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
      result = make(operation->conditional, context, 1);
    else if (operation->type == CU_GRAPH_NODE_TYPE_GRAPH)
      result = tsr_lists_make(operation->child, context);
  }
  return result;
}
