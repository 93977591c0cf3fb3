/* Copies in a ring, for graphs: memory is located when the graph is launched. */
#ifndef TSR_GRAPH_COPY_H
#define TSR_GRAPH_COPY_H

#include "base/objects.h"

/* Rows of bytes, in layers of rows. */
struct tsr_copy_shape {
  uint64_t bytes, rows, layers;
  uint64_t to_row_bytes, to_layer_bytes;
  uint64_t from_row_bytes, from_layer_bytes;
};

/* Enqueue a copy between any two addresses. Pageable memory is copied by the thread for host
 * functions, when the stream has reached the copy. */
CUresult tsr_graph_copy_enqueue(struct tsr_context *context, uint32_t stream, uint64_t destination,
                                uint64_t source, const struct tsr_copy_shape *shape);

#endif
