#include "graphs/describe.h"

#include <string.h>

#include "base/refuse.h"
#include "base/device.h"
#include "contexts/context.h"
#include "graphs/shapes.h"
#include "launching/launch.h"
#include "memory/memory.h"
#include "memory/graph_memory.h"
#include "streams/green.h"
#include "streams/values.h"

/* Find a context by its handle; NULL: the current one. */
static CUresult find_context(CUcontext handle, struct tsr_context **context) {
  CUresult why = CUDA_ERROR_INVALID_CONTEXT;
  *context = handle ? TSR_FIND(tsr_context, TSR_CONTEXT, handle) : tsr_context_current(&why);
  return *context ? CUDA_SUCCESS : why;
}

static uint64_t handle_of(const struct tsr_context *context) {
  return tsr_object_handle(TSR_CONTEXT, context);
}

/* A kernel uses the multiprocessors of the green context that the program names, or that is current
 * when the node is made. */
static uint32_t multiprocessors_of(CUcontext named, const struct tsr_context *context) {
  const struct tsr_green *green = named ? TSR_GREEN_OF(named) : tsr_green_current();
  return green && green->context == context ? green->sm.sm.smCount : 0;
}

CUresult tsr_describe_kernel(struct tsr_operation *operation,
                             const CUDA_KERNEL_NODE_PARAMS *parameters) {
  const uint64_t handle = parameters->func ? (uint64_t)(uintptr_t)parameters->func
                                           : (uint64_t)(uintptr_t)parameters->kern;
  const struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  const CUcontext given = parameters->func ? NULL : parameters->ctx;
  CUcontext named = given;
  if (function) named = (CUcontext)(uintptr_t)function->context_handle;
  struct tsr_context *context;
  const CUresult result = find_context(named, &context);
  if (result != CUDA_SUCCESS) return result;
  const struct tsr_kernel_operation launch = {
      .function = handle,
      .grid = {parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ},
      .block = {parameters->blockDimX, parameters->blockDimY, parameters->blockDimZ},
      .shared_bytes = parameters->sharedMemBytes,
      .multiprocessors = multiprocessors_of(given, context)};
  return tsr_launch_describe(operation, context, &launch, parameters->kernelParams,
                             parameters->extra);
}

void tsr_keep_settings(struct tsr_operation *operation, const struct tsr_operation *old) {
  operation->kernel.cooperative = old->kernel.cooperative;
  operation->kernel.priority = old->kernel.priority;
  memcpy(operation->kernel.cluster, old->kernel.cluster, sizeof old->kernel.cluster);
  operation->kernel.multiprocessors = old->kernel.multiprocessors;
}

CUresult tsr_describe_copy(struct tsr_operation *operation, const CUDA_MEMCPY3D *copy,
                           CUcontext handle) {
  struct tsr_context *context;
  CUresult result = find_context(handle, &context);
  if (result == CUDA_SUCCESS) result = tsr_shape_check(copy);
  if (result != CUDA_SUCCESS) return result;
  *operation = (struct tsr_operation){
      .type = CU_GRAPH_NODE_TYPE_MEMCPY, .context = handle_of(context), .copy = *copy};
  return CUDA_SUCCESS;
}

CUresult tsr_describe_fill(struct tsr_operation *operation, const CUDA_MEMSET_NODE_PARAMS *fill,
                           CUcontext handle) {
  struct tsr_context *context;
  CUresult result = find_context(handle, &context);
  if (result == CUDA_SUCCESS) result = tsr_fill_check(fill);
  if (result != CUDA_SUCCESS) return result;
  *operation = (struct tsr_operation){
      .type = CU_GRAPH_NODE_TYPE_MEMSET, .context = handle_of(context), .set = *fill};
  return CUDA_SUCCESS;
}

CUresult tsr_describe_host(struct tsr_operation *operation,
                           const CUDA_HOST_NODE_PARAMS *parameters) {
  if (!parameters->fn) return CUDA_ERROR_INVALID_VALUE;
  *operation = (struct tsr_operation){.type = CU_GRAPH_NODE_TYPE_HOST, .host = *parameters};
  return CUDA_SUCCESS;
}

CUresult tsr_describe_event(struct tsr_operation *operation, CUgraphNodeType type, CUevent event) {
  const struct tsr_event *found = TSR_FIND(tsr_event, TSR_EVENT, event);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *operation = (struct tsr_operation){.type = type, .event = (uint64_t)(uintptr_t)event};
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) operation->context = found->context_handle;
  return CUDA_SUCCESS;
}

CUresult tsr_describe_values(struct tsr_operation *operation,
                             const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters) {
  if (parameters->flags) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_context *context;
  CUresult result = find_context(parameters->ctx, &context);
  if (result == CUDA_SUCCESS)
    result = tsr_values_check(context, parameters->paramArray, parameters->count);
  if (result != CUDA_SUCCESS) return result;
  const struct tsr_operation given = {
      .type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
      .context = handle_of(context),
      .values = {.list = parameters->paramArray, .count = parameters->count}};
  return tsr_operation_copy(operation, &given);
}

CUresult tsr_describe_child(struct tsr_operation *operation, CUgraph child, int ownership) {
  struct tsr_graph *graph = TSR_GRAPH_OF(child);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  *operation = (struct tsr_operation){.type = CU_GRAPH_NODE_TYPE_GRAPH};
  if (tsr_graph_has_conditions(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  if (graph->moved) return CUDA_ERROR_INVALID_VALUE; /* it belongs to another graph */
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE && tsr_graph_has_memory(graph))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
    return tsr_graph_clone(graph, &operation->child);
  if (ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE || graph->owner ||
      tsr_graph_has_captures(graph))
    return CUDA_ERROR_INVALID_VALUE;
  operation->child = graph;
  graph->moved = true;
  return CUDA_SUCCESS;
}

/* The memory is reserved when the node is made. */
static CUresult describe_alloc(struct tsr_operation *operation,
                               const CUDA_MEM_ALLOC_NODE_PARAMS *parameters) {
  const CUmemPoolProps *pool = &parameters->poolProps;
  const bool managed = pool->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (parameters->bytesize == 0 || pool->handleTypes ||
      (!managed && pool->allocType != CU_MEM_ALLOCATION_TYPE_PINNED))
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_context *context;
  CUresult result = find_context(NULL, &context);
  if (result != CUDA_SUCCESS) return result;
  const bool on_device = pool->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (!managed && !on_device) TSR_REFUSE("a graph's allocation that is in host memory");
  if (on_device && tsr_device(pool->location.id) != context->device)
    TSR_REFUSE("a graph's allocation on another device than the current context's");
  *operation = (struct tsr_operation){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                      .context = handle_of(context)};
  return tsr_graph_memory_new(context, parameters, &operation->memory);
}

static CUresult describe_free(struct tsr_operation *operation, CUdeviceptr address) {
  struct tsr_span span;
  if (!tsr_graph_memory_is(address) || !tsr_memory_find(address, &span))
    return CUDA_ERROR_INVALID_VALUE;
  *operation = (struct tsr_operation){.type = CU_GRAPH_NODE_TYPE_MEM_FREE,
                                      .context = handle_of(span.context),
                                      .freed = address};
  return CUDA_SUCCESS;
}

static CUresult make_bodies(struct tsr_conditional *conditional) {
  for (uint32_t i = 0; i < conditional->count; i++) {
    struct tsr_graph *body = tsr_graph_new();
    if (!body) return CUDA_ERROR_OUT_OF_MEMORY;
    tsr_conditional_set_body(conditional, i, body);
  }
  return CUDA_SUCCESS;
}

static bool is_size_valid(const CUDA_CONDITIONAL_NODE_PARAMS *parameters) {
  switch (parameters->type) {
    case CU_GRAPH_COND_TYPE_IF:
      return parameters->size == 1 || parameters->size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return parameters->size == 1;
    default:
      return parameters->type == CU_GRAPH_COND_TYPE_SWITCH && parameters->size > 0;
  }
}

/* The bodies are empty graphs that belong to the node. */
static CUresult describe_conditional(struct tsr_operation *operation, const struct tsr_graph *graph,
                                     const CUDA_CONDITIONAL_NODE_PARAMS *parameters) {
  struct tsr_condition *condition = tsr_condition_find(graph, parameters->handle);
  struct tsr_context *context;
  CUresult result = find_context(parameters->ctx, &context);
  if (result != CUDA_SUCCESS) return result;
  if (!condition || condition->nodes || condition->context != handle_of(context) ||
      !is_size_valid(parameters))
    return CUDA_ERROR_INVALID_VALUE;
  if (parameters->size > TSR_MOST_BODIES)
    TSR_REFUSE("a conditional node with more than 4096 bodies");
  *operation = (struct tsr_operation){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                                      .context = condition->context};
  result = tsr_conditional_new(condition, parameters->type, parameters->size,
                               &operation->conditional);
  if (result == CUDA_SUCCESS) result = make_bodies(operation->conditional);
  if (result != CUDA_SUCCESS) tsr_operation_discard(operation);
  return result;
}

CUresult tsr_describe(struct tsr_operation *operation, const struct tsr_graph *graph,
                      const CUgraphNodeParams *parameters) {
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return tsr_describe_kernel(operation, &parameters->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (parameters->copy.flags) return CUDA_ERROR_INVALID_VALUE;
      return tsr_describe_copy(operation, &parameters->copy.copyParams, parameters->copy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return tsr_describe_fill(operation, &parameters->set.set, parameters->set.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
      return tsr_describe_host(operation, &parameters->host.host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return tsr_describe_child(operation, parameters->graph.graph, parameters->graph.ownership);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *operation = (struct tsr_operation){.type = CU_GRAPH_NODE_TYPE_EMPTY};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return tsr_describe_event(operation, parameters->type, parameters->event.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return tsr_describe_values(operation, &parameters->memOp);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      TSR_REFUSE("a graph's node for external semaphores");
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return describe_alloc(operation, &parameters->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return describe_free(operation, parameters->free.dptr);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return describe_conditional(operation, graph, &parameters->conditional);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUDA_KERNEL_NODE_PARAMS tsr_kernel_parameters(const struct tsr_operation *operation) {
  const struct tsr_kernel_operation *kernel = &operation->kernel;
  const bool library = tsr_object_find(TSR_KERNEL, kernel->function) != NULL;
  return (CUDA_KERNEL_NODE_PARAMS){
      .func = library ? NULL : (CUfunction)(uintptr_t)kernel->function,
      .kern = library ? (CUkernel)(uintptr_t)kernel->function : NULL,
      .gridDimX = kernel->grid[0],
      .gridDimY = kernel->grid[1],
      .gridDimZ = kernel->grid[2],
      .blockDimX = kernel->block[0],
      .blockDimY = kernel->block[1],
      .blockDimZ = kernel->block[2],
      .sharedMemBytes = kernel->shared_bytes,
      .kernelParams = kernel->pointers,
      .ctx = (CUcontext)(uintptr_t)operation->context};
}

CUresult tsr_parameters_of(const struct tsr_operation *operation, CUgraphNodeParams *parameters) {
  memset(parameters, 0, sizeof *parameters);
  parameters->type = operation->type;
  CUcontext context = (CUcontext)(uintptr_t)operation->context;
  switch (operation->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      parameters->kernel = tsr_kernel_parameters(operation);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      parameters->copy.copyCtx = context;
      parameters->copy.copyParams = operation->copy;
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      parameters->set.set = operation->set;
      parameters->set.ctx = context;
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
      parameters->host.host = operation->host;
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      parameters->graph.graph =
          (CUgraph)(uintptr_t)tsr_object_handle(TSR_GRAPH, operation->child);
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      parameters->event.event = (CUevent)(uintptr_t)operation->event;
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      parameters->memOp = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = context,
                                                          .count = operation->values.count,
                                                          .paramArray = operation->values.list};
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      parameters->alloc = operation->memory->parameters;
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      parameters->free.dptr = operation->freed;
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      parameters->conditional =
          (CUDA_CONDITIONAL_NODE_PARAMS){.handle = operation->conditional->condition->address,
                                         .type = operation->conditional->kind,
                                         .size = operation->conditional->count,
                                         .phGraph_out = operation->conditional->handles,
                                         .ctx = context};
      break;
    default:
      break;
  }
  return CUDA_SUCCESS;
}
