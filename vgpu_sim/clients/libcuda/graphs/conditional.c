#include "graphs/conditional.h"

#include "exchange/list.h"
#include "exchange/ring.h"

bool tsr_conditions_unused(const struct tsr_graph *graph) {
  for (const struct tsr_condition *one = graph->conditions; one; one = one->next)
    if (one->nodes == 0) return true;
  const struct tsr_graph *inner;
  for (uint32_t i = 0; i < graph->count; i++)
    for (uint32_t j = 0; (inner = tsr_inner_graph(&graph->nodes[i]->operation, j)); j++)
      if (tsr_conditions_unused(inner)) return true;
  return false;
}

CUresult tsr_list_enqueue(struct tsr_context *context, uint32_t stream,
                          const tessera_list_body *body) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_LIST, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.list = *body;
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

static CUresult write_value(struct tsr_context *context, uint32_t stream, uint64_t address,
                            uint32_t value) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  const CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_WRITE, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.value =
      (tessera_value_body){.address = address, .value = value, .width_bytes = sizeof value};
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

CUresult tsr_conditions_begin(const struct tsr_graph *graph, struct tsr_context *context,
                              uint32_t stream) {
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
    const struct tsr_operation *operation = &graph->nodes[i]->operation;
    if (operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      const struct tsr_condition *condition = operation->conditional->condition;
      if (condition->assigned)
        result = write_value(context, stream, condition->address, condition->initial);
    }
    const struct tsr_graph *inner;
    for (uint32_t j = 0; result == CUDA_SUCCESS && (inner = tsr_inner_graph(operation, j)); j++)
      result = tsr_conditions_begin(inner, context, stream);
  }
  return result;
}

static CUresult enqueue_alone(struct tsr_context *context, uint32_t stream,
                              const tessera_list_body *body) {
  pthread_mutex_lock(&context->cooperative_lock);
  const tessera_wait before = context->cooperative;
  CUresult result = CUDA_SUCCESS;
  if (before.value != 0 && before.stream != stream)
    result = tsr_ring_wait(context, stream, &before, 1);
  if (result == CUDA_SUCCESS) result = tsr_list_enqueue(context, stream, body);
  if (result == CUDA_SUCCESS)
    context->cooperative =
        (tessera_wait){.stream = stream, .value = tsr_ring_last(context, stream)};
  pthread_mutex_unlock(&context->cooperative_lock);
  return result;
}

CUresult tsr_conditional_enqueue(const struct tsr_conditional *conditional,
                                 struct tsr_context *context, uint32_t stream) {
  if (!conditional->lists) return CUDA_ERROR_OUT_OF_MEMORY;
  const struct tsr_listed *choice = &conditional->lists[conditional->count];
  const tessera_list_body body = {.address = choice->address,
                                  .slots = choice->slots,
                                  .when = TESSERA_WHEN_ALWAYS};
  if (!conditional->cooperative) return tsr_list_enqueue(context, stream, &body);
  if (stream != TSR_LIST_RING) return enqueue_alone(context, stream, &body);
  tsr_list_recording()->cooperative = true;
  return tsr_list_enqueue(context, stream, &body);
}
