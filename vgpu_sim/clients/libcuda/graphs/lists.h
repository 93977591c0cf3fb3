/* Lists of nodes and edges, as callers pass and receive them. */
#ifndef TSR_LISTS_H
#define TSR_LISTS_H

#include "nodes/graph.h"

enum { TSR_MOST_DEPENDENCIES = 1 << 20 };

/* Find the nodes of an array of handles; `*nodes` must be freed, and is set also on failure.
 * Needs the graphs' lock. */
CUresult tsr_nodes_find(const CUgraphNode *handles, size_t count, struct tsr_node ***nodes);

#endif
