/* Execution of conditional nodes: the worker runs their bodies as lists of requests (OP_LIST). */
#ifndef TSR_CONDITIONAL_H
#define TSR_CONDITIONAL_H

#include "nodes/graph.h"

/* Find a condition of the graph, or of one inside it, that no node uses. */
bool tsr_conditions_unused(const struct tsr_graph *graph);

/* Find a node that the body of a conditional node cannot contain, or NULL. */
struct tsr_node *tsr_find_unlistable(const struct tsr_graph *graph);

/* Make the lists of all conditional nodes of an executable graph anew. */
CUresult tsr_lists_make(const struct tsr_graph *graph, struct tsr_context *context);

/* Enqueue the stores of initial values with which a launch begins. */
CUresult tsr_conditions_begin(const struct tsr_graph *graph, struct tsr_context *context,
                              uint32_t stream);

CUresult tsr_conditional_enqueue(const struct tsr_conditional *conditional,
                                 struct tsr_context *context, uint32_t stream);

#endif
