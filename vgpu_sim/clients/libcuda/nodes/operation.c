#include "nodes/operation.h"

#include <stdlib.h>
#include <string.h>

#include "callbacks/later.h"
#include "modules/function.h"
#include "memory/graph_memory.h"
#include "nodes/condition.h"
#include "nodes/graph.h"

/* Allocate the parameter block of a kernel and the pointers into it. */
static CUresult make_block(struct tsr_kernel_operation *kernel,
                           const struct tsr_function *function) {
  kernel->parameter_count = function->record.parameter_count;
  kernel->parameter_bytes = function->record.parameter_bytes;
  kernel->parameters = calloc(1, kernel->parameter_bytes + 1);
  kernel->pointers = calloc(kernel->parameter_count + 1, sizeof *kernel->pointers);
  if (!kernel->parameters || !kernel->pointers) return CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < kernel->parameter_count; i++)
    kernel->pointers[i] = kernel->parameters + function->parameters[i].offset;
  return CUDA_SUCCESS;
}

static CUresult fill_block(struct tsr_kernel_operation *kernel,
                           const struct tsr_function *function, void **parameters,
                           const void *buffer) {
  const CUresult result = make_block(kernel, function);
  if (result != CUDA_SUCCESS || kernel->parameter_count == 0) return result;
  if (buffer) {
    memcpy(kernel->parameters, buffer, kernel->parameter_bytes);
    return CUDA_SUCCESS;
  }
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < kernel->parameter_count; i++) {
    if (!parameters[i]) return CUDA_ERROR_INVALID_VALUE;
    memcpy(kernel->pointers[i], parameters[i], function->parameters[i].size);
  }
  return CUDA_SUCCESS;
}

CUresult tsr_operation_of_kernel(struct tsr_operation *operation, struct tsr_context *context,
                                 const struct tsr_kernel_operation *launch, void **parameters,
                                 const void *buffer) {
  *operation = (struct tsr_operation){.type = CU_GRAPH_NODE_TYPE_KERNEL,
                                      .context = tsr_object_handle(TSR_CONTEXT, context),
                                      .kernel = *launch};
  operation->kernel.parameters = NULL;
  operation->kernel.pointers = NULL;
  uint64_t handle;
  CUresult result = tsr_function_resolve(context, launch->function, &handle);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&tsr_module_lock);
  const struct tsr_function *function = TSR_FIND(tsr_function, TSR_FUNCTION, handle);
  result = CUDA_ERROR_INVALID_HANDLE;
  if (function) result = fill_block(&operation->kernel, function, parameters, buffer);
  pthread_mutex_unlock(&tsr_module_lock);
  if (result != CUDA_SUCCESS) tsr_operation_clear(operation);
  return result;
}

static CUresult copy_kernel(struct tsr_kernel_operation *to,
                            const struct tsr_kernel_operation *from) {
  to->parameters = malloc(from->parameter_bytes + 1);
  to->pointers = malloc((from->parameter_count + 1) * sizeof *to->pointers);
  if (!to->parameters || !to->pointers) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(to->parameters, from->parameters, from->parameter_bytes);
  for (uint32_t i = 0; i < from->parameter_count; i++)
    to->pointers[i] = to->parameters + ((uint8_t *)from->pointers[i] - from->parameters);
  return CUDA_SUCCESS;
}

CUresult tsr_operation_copy(struct tsr_operation *to, const struct tsr_operation *from) {
  *to = *from;
  CUresult result = CUDA_SUCCESS;
  if (from->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    to->kernel.parameters = NULL;
    to->kernel.pointers = NULL;
    result = copy_kernel(&to->kernel, &from->kernel);
  } else if (from->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    to->values.list = malloc((from->values.count + 1) * sizeof *to->values.list);
    if (!to->values.list) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(to->values.list, from->values.list, from->values.count * sizeof *to->values.list);
  } else if (from->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    tsr_graph_memory_share(to->memory);
  } else if (from->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    to->child = NULL;
  } else if (from->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    const struct tsr_conditional *conditional = from->conditional;
    return tsr_conditional_new(conditional->condition, conditional->kind, conditional->count,
                               &to->conditional);
  }
  if (result != CUDA_SUCCESS) tsr_operation_clear(to);
  return result;
}

static void release_memory(void *memory) { tsr_graph_memory_release(memory); }

void tsr_operation_clear(struct tsr_operation *operation) {
  if (operation->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    free(operation->kernel.parameters);
    free(operation->kernel.pointers);
    operation->kernel.parameters = NULL;
    operation->kernel.pointers = NULL;
  } else if (operation->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    free(operation->values.list);
    operation->values.list = NULL;
  } else if (operation->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    if (operation->memory) /* work in progress may still use it */
      tsr_later(operation->context, release_memory, operation->memory, tsr_graphs_sweep);
    operation->memory = NULL;
  } else if (operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    if (operation->conditional) tsr_conditional_free(operation->conditional);
    operation->conditional = NULL;
  }
}

CUDA_MEMCPY3D tsr_linear_copy(uint64_t to, uint64_t from, uint64_t bytes) {
  return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .srcDevice = from,
                         .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .dstDevice = to,
                         .WidthInBytes = bytes,
                         .Height = 1,
                         .Depth = 1};
}
