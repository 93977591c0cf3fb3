/* Graphs: nodes, edges and the user objects that they keep. tsr_graph_lock guards all of them. */
#ifndef TSR_GRAPH_H
#define TSR_GRAPH_H

#include "nodes/condition.h"
#include "nodes/operation.h"

/* The outermost lock of the library. No thread waits for a context's work while it holds the lock. */
void tsr_graphs_lock(void);
/* Release what launches no longer need (callbacks/later.h), release the lock, then call the
 * destructors of user objects that were released under it. */
void tsr_graphs_unlock(void);
/* Release the lock while waiting for a condition. */
void tsr_graphs_wait(pthread_cond_t *changed);
/* Release what launches no longer need, without waiting for the lock. */
void tsr_graphs_sweep(void);

struct tsr_node {
  struct tsr_object object;
  struct tsr_graph *graph;
  struct tsr_operation operation;
  struct tsr_edges before, after;
  uint32_t index;    /* in graph->nodes */
  uint32_t id;       /* unique in its graph, never reused */
  uint64_t origin;   /* handle of the node of which it is a clone; 0: none */
  uint64_t captured; /* number of the capture that made it; 0: none */
  bool disabled;     /* in an executable graph */
  uint32_t mark;     /* for walks of the graph */
  uint32_t step;     /* the last step of the node in an executable graph */
};

struct tsr_user_object {
  struct tsr_object object;
  void *data;
  CUhostFn destroy;
  uint64_t references;
  struct tsr_user_object *next_dead;
};

struct tsr_held_object {
  struct tsr_user_object *object;
  uint32_t references;
};

struct tsr_graph {
  struct tsr_object object;
  struct tsr_node **nodes; /* in the order of their creation */
  uint32_t count, room;
  uint32_t next_id;
  uint32_t id;               /* unique in the process */
  uint64_t origin;           /* handle of the graph of which it is a clone */
  struct tsr_node *owner;    /* node whose child it is, or NULL */
  bool moved;                /* it was made a child as a whole, not copied */
  uint32_t captures;         /* captures in progress that add nodes */
  uint32_t executables;      /* executable graphs made from it that exist */
  struct tsr_held_object *held; /* user objects */
  uint32_t held_count, held_room;
  struct tsr_condition *conditions; /* made for its nodes and for those of graphs inside it */
};

/* Return graph `i` inside an operation, a child or a body; NULL: there are no more. */
static inline struct tsr_graph *tsr_inner_graph(const struct tsr_operation *operation, uint32_t i) {
  if (operation->type == CU_GRAPH_NODE_TYPE_GRAPH) return i == 0 ? operation->child : NULL;
  if (operation->type != CU_GRAPH_NODE_TYPE_CONDITIONAL || !operation->conditional) return NULL;
  return i < operation->conditional->count ? operation->conditional->bodies[i] : NULL;
}

/* All functions below need the lock. */

struct tsr_graph *tsr_graph_new(void);
/* Destroy a graph with its nodes, child graphs and references to user objects. */
void tsr_graph_free(struct tsr_graph *graph);
/* Copy a graph; every clone of a node knows its origin. */
CUresult tsr_graph_clone(const struct tsr_graph *from, struct tsr_graph **clone);

/* Whether a predicate is true for a graph inside one of the graph's nodes. */
bool tsr_graph_any_inner(const struct tsr_graph *graph, bool (*has)(const struct tsr_graph *));

/* Whether the graph, or a child of it, allocates or frees memory: it has one copy of its memory, so
 * that programs cannot clone it, delete its nodes and edges, or have two executable graphs of it. */
bool tsr_graph_has_memory(const struct tsr_graph *graph);

/* Whether there is an executable graph of the graph, or of a child of it, with nodes for memory. */
bool tsr_graph_has_instantiated_memory(const struct tsr_graph *graph);

/* Whether memory that nodes of the graph, or of a child of it, allocate has not been freed since its
 * last launch. */
bool tsr_graph_has_live_memory(const struct tsr_graph *graph);

/* Whether the graph, or a child of it, has conditional nodes: programs cannot clone it either. */
bool tsr_graph_has_conditions(const struct tsr_graph *graph);

/* Whether the graph, or a child of it, keeps user objects. */
bool tsr_graph_has_objects(const struct tsr_graph *graph);

/* Whether a capture adds nodes to the graph or to a child of it, which must live until it ends. */
bool tsr_graph_has_captures(const struct tsr_graph *graph);

#define TSR_GRAPH_OF(handle) TSR_FIND(tsr_graph, TSR_GRAPH, handle)
#define TSR_NODE_OF(handle) TSR_FIND(tsr_node, TSR_NODE, handle)

/* Free an operation that belongs to no node. */
void tsr_operation_discard(struct tsr_operation *operation);

/* Add a node that depends on `count` nodes of the same graph. The operation belongs to the node
 * afterwards, also on failure, except for a graph that is moved, which then stays the program's. `data` may be NULL. */
CUresult tsr_graph_add(struct tsr_graph *graph, struct tsr_operation *operation,
                       struct tsr_node *const *dependencies, const CUgraphEdgeData *data,
                       size_t count, struct tsr_node **made);
void tsr_graph_remove(struct tsr_node *node);

/* The same as tsr_graph_add for a node that the program adds, by which it may break a rule of
 * nodes that allocate or free memory. */
CUresult tsr_graph_add_new(struct tsr_graph *graph, struct tsr_operation *operation,
                           struct tsr_node *const *dependencies, const CUgraphEdgeData *data,
                           size_t count, struct tsr_node **made);

/* Add or remove one edge; INVALID_VALUE: it exists already, does not exist, would close a circle,
 * or connects different graphs. */
CUresult tsr_edge_add(struct tsr_node *from, struct tsr_node *to, const CUgraphEdgeData *data);
CUresult tsr_edge_remove(struct tsr_node *from, struct tsr_node *to, const CUgraphEdgeData *data);

/* Write the nodes into `order` (graph->count) so that each comes after those that it depends on. */
CUresult tsr_graph_sort(const struct tsr_graph *graph, struct tsr_node **order);

/* Change references of a graph to a user object; INVALID_VALUE: the graph has too few. */
CUresult tsr_graph_hold(struct tsr_graph *graph, struct tsr_user_object *object, uint32_t count);
CUresult tsr_graph_unhold(struct tsr_graph *graph, struct tsr_user_object *object, uint32_t count);
/* Give up references of the program or of a graph; the last one destroys the object. */
CUresult tsr_user_object_release(struct tsr_user_object *object, uint64_t count);

#endif
