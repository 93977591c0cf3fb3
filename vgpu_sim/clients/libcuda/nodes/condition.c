#include "nodes/condition.h"

#include <stdlib.h>

#include "callbacks/later.h"
#include "exchange/health.h"
#include "memory/memory.h"
#include "nodes/graph.h"

/* Device memory that only the graph releases. */
struct place {
  uint64_t context, address;
};

static void release_place(void *data) {
  struct place *place = data;
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, place->context);
  struct tsr_span span;
  if (context && tsr_context_error(context) == CUDA_SUCCESS &&
      tsr_memory_find(place->address, &span) && span.context == context)
    tsr_memory_release(place->address, TSR_USE_GRAPH);
  free(place);
}

static void release_later(uint64_t context, uint64_t address) {
  struct place *place = malloc(sizeof *place);
  if (!place) return; /* the memory is kept until the context ends */
  *place = (struct place){.context = context, .address = address};
  tsr_later(context, release_place, place, tsr_graphs_sweep);
}

CUresult tsr_condition_new(struct tsr_context *context, struct tsr_graph *graph, uint32_t initial,
                           bool assigned, struct tsr_condition **condition) {
  struct tsr_condition *made = calloc(1, sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = tsr_memory_allocate(context, (struct tsr_sort){.use = TSR_USE_GRAPH},
                                              TSR_CONDITION_BYTES, &made->address);
  if (result != CUDA_SUCCESS) {
    free(made);
    return result;
  }
  made->context = tsr_object_handle(TSR_CONTEXT, context);
  made->initial = initial;
  made->assigned = assigned;
  made->users = 1;
  made->next = graph->conditions;
  graph->conditions = made;
  *condition = made;
  return CUDA_SUCCESS;
}

struct tsr_condition *tsr_condition_find(const struct tsr_graph *graph, uint64_t handle) {
  for (;;) {
    for (struct tsr_condition *one = graph->conditions; one; one = one->next)
      if (one->address == handle) return one;
    if (!graph->owner) return NULL;
    graph = graph->owner->graph;
  }
}

void tsr_condition_release(struct tsr_condition *condition) {
  if (--condition->users != 0) return;
  release_later(condition->context, condition->address);
  free(condition);
}

CUresult tsr_conditional_new(struct tsr_condition *condition, CUgraphConditionalNodeType kind,
                             uint32_t count, struct tsr_conditional **made) {
  struct tsr_conditional *conditional = calloc(1, sizeof *conditional);
  if (!conditional) return CUDA_ERROR_OUT_OF_MEMORY;
  *conditional = (struct tsr_conditional){.condition = condition,
                                          .kind = kind,
                                          .count = count,
                                          .bodies = calloc(count, sizeof *conditional->bodies),
                                          .handles = calloc(count, sizeof *conditional->handles)};
  condition->users++;
  condition->nodes++;
  if (!conditional->bodies || !conditional->handles) {
    tsr_conditional_free(conditional);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *made = conditional;
  return CUDA_SUCCESS;
}

void tsr_conditional_set_body(struct tsr_conditional *conditional, uint32_t i,
                              struct tsr_graph *graph) {
  conditional->bodies[i] = graph;
  conditional->handles[i] = (CUgraph)(uintptr_t)tsr_object_handle(TSR_GRAPH, graph);
}

void tsr_listed_release(struct tsr_listed *listed, uint64_t context) {
  if (listed->address) release_later(context, listed->address);
  *listed = (struct tsr_listed){0};
}

void tsr_conditional_forget_lists(struct tsr_conditional *conditional) {
  for (uint32_t i = 0; conditional->lists && i <= conditional->count; i++)
    tsr_listed_release(&conditional->lists[i], conditional->condition->context);
  free(conditional->lists);
  conditional->lists = NULL;
}

void tsr_conditional_free(struct tsr_conditional *conditional) {
  tsr_conditional_forget_lists(conditional);
  conditional->condition->nodes--;
  tsr_condition_release(conditional->condition);
  free(conditional->bodies);
  free(conditional->handles);
  free(conditional);
}
