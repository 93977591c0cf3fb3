/* Conditional nodes: the values on which they depend, and their bodies.
 *
 * A condition's value is a word of device memory, and its handle is the address of that word, so
 * that kernels set it by a store (compiler/system_calls.ptx). All copies of a node share the word.
 * All functions need the graphs' lock, except for tsr_conditional_forget_lists. */
#ifndef TSR_CONDITION_H
#define TSR_CONDITION_H

#include "base/objects.h"

struct tsr_graph;

enum { TSR_MOST_BODIES = 4096, TSR_LATCH_OFFSET = 4, TSR_CONDITION_BYTES = 8 };

struct tsr_condition {
  struct tsr_condition *next; /* of the same graph */
  uint64_t context;           /* handle */
  uint64_t address;           /* of the value, and then a copy of it that the node makes */
  uint32_t initial;
  bool assigned;  /* each launch begins with the initial value */
  uint32_t users; /* the graph and nodes */
  uint32_t nodes; /* conditional nodes, copies in executable graphs included */
};

/* Requests in device memory that the worker runs. */
struct tsr_listed {
  uint64_t address; /* 0: no memory, because there are no requests */
  uint32_t slots;
};

/* Release a list's memory when the context's requests until now are done. */
void tsr_listed_release(struct tsr_listed *listed, uint64_t context);

struct tsr_conditional {
  struct tsr_condition *condition;
  CUgraphConditionalNodeType kind;
  uint32_t count;
  struct tsr_graph **bodies;
  CUgraph *handles; /* of the bodies */
  /* In an executable graph: the requests of the bodies, and then those that choose among them. */
  struct tsr_listed *lists;
  bool cooperative; /* they include a cooperative launch */
};

/* Make a condition for the nodes of a graph and of graphs inside it. */
CUresult tsr_condition_new(struct tsr_context *context, struct tsr_graph *graph, uint32_t initial,
                           bool assigned, struct tsr_condition **condition);

/* Find the condition of a handle that nodes of a graph may use, or NULL. */
struct tsr_condition *tsr_condition_find(const struct tsr_graph *graph, uint64_t handle);

void tsr_condition_release(struct tsr_condition *condition);

/* Make a conditional node's data without bodies (all NULL). */
CUresult tsr_conditional_new(struct tsr_condition *condition, CUgraphConditionalNodeType kind,
                             uint32_t count, struct tsr_conditional **made);

/* Put a graph in place of a body. */
void tsr_conditional_set_body(struct tsr_conditional *conditional, uint32_t i,
                              struct tsr_graph *graph);

/* Release the lists once no launch runs them. */
void tsr_conditional_forget_lists(struct tsr_conditional *conditional);

/* Free all but the bodies. */
void tsr_conditional_free(struct tsr_conditional *conditional);

#endif
