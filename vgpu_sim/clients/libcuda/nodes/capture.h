/* Stream capture: a stream that captures adds nodes to a graph instead of running its work.
 *
 * Every function that enqueues work calls tsr_captures after it has found its stream, and if that
 * is true describes the work as an operation and passes it to tsr_capture_add. Work of a function that
 * does not, is refused by tsr_ring_begin, so it never runs during a capture. */
#ifndef TSR_CAPTURE_H
#define TSR_CAPTURE_H

#include "nodes/graph.h"

static inline bool tsr_captures(const struct tsr_context *context, uint32_t stream) {
  return __builtin_expect(
      atomic_load_explicit(&context->capturing[stream], memory_order_relaxed), 0);
}

/* Add a node after the stream's last one. The operation belongs to the node afterwards, also on
 * failure. Takes the graphs' lock. */
CUresult tsr_capture_add(struct tsr_context *context, uint32_t stream,
                         struct tsr_operation *operation);

/* Record an event in a stream that captures. Takes the graphs' lock. */
CUresult tsr_capture_record(struct tsr_context *context, uint32_t stream,
                            struct tsr_captured_event *event);

/* Whether the event belongs to a capture in progress or to one that has ended. */
bool tsr_capture_has_event(const struct tsr_captured_event *event);

/* Invalidate the capture in progress to which an event belongs; false: there is none. Takes the graphs'
 * lock. */
bool tsr_capture_break_event(const struct tsr_captured_event *event);

/* Have a stream continue after an event of a capture; a stream that does not capture joins that
 * capture. Takes the graphs' lock. */
CUresult tsr_capture_wait(struct tsr_context *context, uint32_t stream,
                          const struct tsr_captured_event *event);

/* Invalidate the stream's capture, and return `why`. Takes the graphs' lock. */
CUresult tsr_capture_break(struct tsr_context *context, uint32_t stream, CUresult why);

/* Invalidate all captures of a context; false: there is none. Takes the graphs' lock. */
bool tsr_capture_break_all(struct tsr_context *context);

/* End the captures of which a stream that is destroyed is the origin, or those of a whole context
 * (`stream` is TESSERA_MAX_STREAMS), without a graph. Another stream leaves its capture, whose origin
 * must still come after its last nodes. Takes the graphs' lock. */
void tsr_capture_abandon(struct tsr_context *context, uint32_t stream);

struct tsr_capture_start {
  struct tsr_graph *graph; /* NULL: a new one */
  struct tsr_node *const *dependencies;
  const CUgraphEdgeData *data;
  size_t count;
  CUstreamCaptureMode mode;
};

/* The functions below need the graphs' lock. */
CUresult tsr_capture_begin(struct tsr_context *context, uint32_t stream,
                           const struct tsr_capture_start *start);
CUresult tsr_capture_end(struct tsr_context *context, uint32_t stream, struct tsr_graph **graph);
bool tsr_capture_is_into_graph(struct tsr_context *context, uint32_t stream);

struct tsr_capture_info {
  CUstreamCaptureStatus status;
  uint64_t id;
  struct tsr_graph *graph;
  const CUgraphNode *handles; /* valid until the stream's next call */
  const CUgraphEdgeData *data;
  size_t count;
};
CUresult tsr_capture_info(struct tsr_context *context, uint32_t stream,
                          struct tsr_capture_info *info);
CUresult tsr_capture_set_tips(struct tsr_context *context, uint32_t stream,
                              struct tsr_node *const *nodes, const CUgraphEdgeData *data,
                              size_t count, bool replace);

#endif
