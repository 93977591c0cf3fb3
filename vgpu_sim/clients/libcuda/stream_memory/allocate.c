#include "stream_memory/allocate.h"

#include "memory/graph_memory.h"
#include "memory/pool.h"

CUresult tsr_allocate(struct tsr_context *context, struct tsr_sort sort, uint64_t bytes,
                      uint64_t *address) {
  const CUresult result = tsr_memory_allocate(context, sort, bytes, address);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  const bool trimmed = tsr_graph_memory_trim(NULL);
  if (!tsr_pool_release(NULL, NULL, 0) && !trimmed) return result;
  return tsr_memory_allocate(context, sort, bytes, address);
}
