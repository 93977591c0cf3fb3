/* Executable graphs: a private copy of a graph, and the order in which its nodes are enqueued. */
#ifndef TSR_EXEC_H
#define TSR_EXEC_H

#include "nodes/graph.h"

enum { TSR_NO_STEP = -1 };

/* One operation. Steps are in topological order, child graphs included. */
struct tsr_step {
  struct tsr_node *node;
  uint32_t lane;
  int32_t waits[TSR_GRAPH_LANES]; /* per lane: the step to wait for, or TSR_NO_STEP */
  bool runs; /* it has the node's operation; else it only joins other steps */
};

struct tsr_exec {
  struct tsr_object object;
  bool launching; /* guarded by the graphs' lock; such an object is neither changed nor freed */
  struct tsr_graph *graph;
  uint64_t source; /* handle of the graph from which it was made */
  uint64_t flags;
  uint32_t id;
  uint64_t context; /* handle, 0: that of the stream */
  bool has_conditions, has_memory;
  bool lists_are_stale; /* nodes have changed since the lists in device memory were made */
  bool is_list; /* it runs as one list of requests */
  struct tsr_listed whole; /* the whole graph, if it is a list */
  uint64_t whole_context;  /* of that memory */
  uint32_t place; /* of the list's entry in the launch buffer; 0: none */
  struct tsr_step *steps;
  uint64_t *values; /* per step: the request that completes it */
  uint32_t count, room, lanes;
  /* The end of the last launch: the next one waits for it. */
  uint64_t last_context;
  tessera_wait last;
};

/* Plan the steps of exec->graph; under the graphs' lock. */
CUresult tsr_exec_plan(struct tsr_exec *exec);

/* Find an executable graph and wait until no thread launches it; NULL: there is none. Releases the
 * graphs' lock while it waits. */
struct tsr_exec *tsr_exec_find(uint64_t handle);

/* Note that the launch for which exec->launching was set has ended; without the graphs' lock. */
void tsr_exec_launched(struct tsr_exec *exec);

/* Free a graph of which launches may be in progress, and with it user objects that these need, once
 * they are done; under the graphs' lock. */
void tsr_exec_drop_graph(const struct tsr_exec *exec, struct tsr_graph *graph);

/* Enqueue the graph in a stream; exec->launching is set. */
CUresult tsr_exec_enqueue(struct tsr_exec *exec, struct tsr_context *context, uint32_t stream);

/* Let kernels of the context launch the graph from now on, if it was made for that; exec->launching is
 * set. */
CUresult tsr_exec_upload(struct tsr_exec *exec, struct tsr_context *context);

/* Why a graph cannot be instantiated; `node` is the node that cannot run, or NULL. */
struct tsr_exec_failure {
  CUgraphInstantiateResult why;
  struct tsr_node *node;
};

/* Make an executable graph from a graph; under the graphs' lock. */
CUresult tsr_exec_new(struct tsr_graph *graph, uint64_t flags, struct tsr_exec **exec,
                      struct tsr_exec_failure *failure);

/* Free an executable graph whose handle is retired; under the graphs' lock. */
void tsr_exec_free(struct tsr_exec *exec);

#endif
