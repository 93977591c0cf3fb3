/* Memory of a graph's allocation nodes. */
#ifndef TSR_GRAPH_MEMORY_H
#define TSR_GRAPH_MEMORY_H

#include "base/objects.h"

/* Memory at a fixed address, which all copies of its node share. It is allocated with the node, and
 * freed with the last copy. */
struct tsr_graph_memory {
  _Atomic uint32_t users;
  uint64_t address, id;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters;
};

CUresult tsr_graph_memory_new(struct tsr_context *context,
                              const CUDA_MEM_ALLOC_NODE_PARAMS *parameters,
                              struct tsr_graph_memory **memory);
void tsr_graph_memory_release(struct tsr_graph_memory *memory);

#endif
