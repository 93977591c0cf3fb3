/* Memory of graphs' allocation nodes. */
#ifndef TSR_GRAPH_MEMORY_H
#define TSR_GRAPH_MEMORY_H

#include "base/objects.h"

/* Memory at a fixed address, which all copies of its node share. It is reserved with the node. Once
 * no copy of the node exists and the memory is free in the program's view, it is returned: at once,
 * or, if a stream freed it, by tsr_graph_memory_trim. */
struct tsr_graph_memory {
  struct tsr_graph_memory *next; /* in its bucket */
  struct tsr_context *context;   /* NULL: it has ended, and the memory with it */
  uint64_t address;
  uint32_t users; /* copies of the node */
  bool live;      /* a launch has allocated it, and nothing has freed it since */
  uint32_t owner; /* id of the graph to which the node was added; 0: none yet */
  bool freed_by_owner, freed_by_other; /* graphs with a node that frees it */
  CUDA_MEM_ALLOC_NODE_PARAMS parameters; /* their descriptions of access are `access` */
  CUmemAccessDesc access[];
};

/* Reserve the memory of a new node. */
CUresult tsr_graph_memory_new(struct tsr_context *context,
                              const CUDA_MEM_ALLOC_NODE_PARAMS *parameters,
                              struct tsr_graph_memory **memory);

/* Add and remove a copy of the node. */
void tsr_graph_memory_share(struct tsr_graph_memory *memory);
void tsr_graph_memory_release(struct tsr_graph_memory *memory);

/* Whether the address is the first one of a graph's memory. */
bool tsr_graph_memory_is(uint64_t address);

/* Note that a launch allocates or frees the memory at an address. */
void tsr_graph_memory_launched(uint64_t address, bool live);

/* Whether a launch has allocated the memory, and nothing has freed it since. */
bool tsr_graph_memory_is_live(const struct tsr_graph_memory *memory);

/* Note the graph to which the node of the memory was added first. */
void tsr_graph_memory_own(struct tsr_graph_memory *memory, uint32_t graph);

/* Whether a graph may get a node that frees the memory at an address: the owner if no graph has one,
 * another graph if the owner has none. `*first`: no graph has one yet. */
bool tsr_graph_memory_may_free(uint64_t address, uint32_t graph, bool *first);

/* Note that a graph has got such a node. */
void tsr_graph_memory_freed_by(uint64_t address, uint32_t graph);

/* Free the memory in a stream, in whose order a launch will have it again; INVALID_VALUE if no
 * launch has allocated it. */
CUresult tsr_graph_memory_free(uint64_t address);

/* Return the memory that nothing uses any more, of one device or of all (NULL). The return value is
 * whether there was any. */
bool tsr_graph_memory_trim(const struct tsr_device *device);

/* Forget the memory of a context that ends. */
void tsr_graph_memory_drop(struct tsr_context *context);

#endif
