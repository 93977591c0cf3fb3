/* Execution of conditional nodes: the worker runs their bodies as lists of requests (graphs/bodies.h). */
#ifndef TSR_CONDITIONAL_H
#define TSR_CONDITIONAL_H

#include "nodes/graph.h"

/* Find a condition of the graph, or of one inside it, that no node uses. */
bool tsr_conditions_unused(const struct tsr_graph *graph);

/* Enqueue a request that runs a list. */
CUresult tsr_list_enqueue(struct tsr_context *context, uint32_t stream,
                          const tessera_list_body *body);

/* Enqueue the stores of initial values with which a launch begins. */
CUresult tsr_conditions_begin(const struct tsr_graph *graph, struct tsr_context *context,
                              uint32_t stream);

CUresult tsr_conditional_enqueue(const struct tsr_conditional *conditional,
                                 struct tsr_context *context, uint32_t stream);

#endif
