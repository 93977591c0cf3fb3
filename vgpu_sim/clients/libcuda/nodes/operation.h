/* What a node of a graph does, independent of its graph. */
#ifndef TSR_OPERATION_H
#define TSR_OPERATION_H

#include "base/objects.h"

struct tsr_graph;
struct tsr_graph_memory;
struct tsr_conditional;

struct tsr_kernel_operation {
  uint64_t function; /* handle of a function or kernel, as the program passed it */
  uint32_t grid[3], block[3];
  uint32_t cluster[3]; /* zeros: the node states none */
  uint32_t shared_bytes;
  uint32_t multiprocessors; /* of a green context; 0: all */
  int32_t priority;
  bool cooperative;
  uint32_t parameter_count, parameter_bytes;
  uint8_t *parameters; /* the parameter block; owned */
  void **pointers;     /* to each parameter in the block; owned */
};

struct tsr_operation {
  CUgraphNodeType type;
  uint64_t context; /* handle; 0: the context of the stream in which the graph is launched */
  union {
    struct tsr_kernel_operation kernel;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_HOST_NODE_PARAMS host;
    uint64_t event;
    struct {
      CUstreamBatchMemOpParams *list; /* owned */
      unsigned int count;
    } values;
    struct tsr_graph_memory *memory; /* shared */
    uint64_t freed;                  /* address */
    struct tsr_graph *child; /* owned by the node */
    struct tsr_conditional *conditional; /* owned (nodes/condition.h) */
  };
};

/* Describe a launch. `parameters` are pointers, or NULL with a whole block in `buffer`, or both
 * NULL if the kernel has no parameters. */
CUresult tsr_operation_of_kernel(struct tsr_operation *operation, struct tsr_context *context,
                                 const struct tsr_kernel_operation *launch, void **parameters,
                                 const void *buffer);

/* Copy an operation, except for child graphs and bodies, which become NULL. */
CUresult tsr_operation_copy(struct tsr_operation *to, const struct tsr_operation *from);

/* Free what the operation owns, except for child graphs and bodies. */
void tsr_operation_clear(struct tsr_operation *operation);

/* Describe a copy of consecutive bytes. */
CUDA_MEMCPY3D tsr_linear_copy(uint64_t to, uint64_t from, uint64_t bytes);

#endif
