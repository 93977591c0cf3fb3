/* The bodies of conditional nodes, and graphs that kernels can launch, as lists of requests in device
 * memory. */
#ifndef TSR_BODIES_H
#define TSR_BODIES_H

#include "nodes/graph.h"

/* Find a node that the body of a conditional node cannot contain, or NULL. */
struct tsr_node *tsr_find_unlistable(const struct tsr_graph *graph);

/* Find a node that a graph which kernels launch cannot contain, or NULL. */
struct tsr_node *tsr_find_unlaunchable(const struct tsr_graph *graph);

/* Whether a kernel of the graph is from a module whose kernels may launch graphs. It is loaded into the
 * context if needed. */
bool tsr_graph_launches_graphs(const struct tsr_graph *graph, struct tsr_context *context);

/* Make the list of a whole graph without conditional nodes. */
CUresult tsr_graph_list_make(const struct tsr_graph *graph, struct tsr_context *context,
                             struct tsr_listed *listed, bool *cooperative);

/* Make the lists of all conditional nodes of an executable graph anew. */
CUresult tsr_lists_make(const struct tsr_graph *graph, struct tsr_context *context);

#endif
