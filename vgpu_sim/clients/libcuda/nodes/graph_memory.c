#include "nodes/graph_memory.h"

#include <stdlib.h>

#include "exchange/health.h"
#include "memory/memory.h"

CUresult tsr_graph_memory_new(struct tsr_context *context,
                              const CUDA_MEM_ALLOC_NODE_PARAMS *parameters,
                              struct tsr_graph_memory **memory) {
  struct tsr_graph_memory *made = calloc(1, sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = tsr_memory_allocate(context, (struct tsr_sort){.use = TSR_USE_GRAPH},
                                              parameters->bytesize, &made->address);
  struct tsr_span span;
  if (result != CUDA_SUCCESS || !tsr_memory_find(made->address, &span)) {
    free(made);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  made->id = span.id;
  made->users = 1;
  made->parameters = *parameters;
  made->parameters.accessDescs = NULL;
  made->parameters.accessDescCount = 0;
  made->parameters.dptr = made->address;
  *memory = made;
  return CUDA_SUCCESS;
}

/* The memory may have ended with its context, and others may have the address now. */
void tsr_graph_memory_release(struct tsr_graph_memory *memory) {
  if (atomic_fetch_sub(&memory->users, 1) != 1) return;
  struct tsr_span span;
  if (tsr_memory_find(memory->address, &span) && span.id == memory->id &&
      tsr_context_error(span.context) == CUDA_SUCCESS)
    tsr_memory_release(memory->address, TSR_USE_GRAPH);
  free(memory);
}
