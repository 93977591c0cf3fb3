#include "nodes/capture.h"

#include <stdlib.h>
#include <string.h>

#include "exchange/unsafe.h"
#include "exchange/wait.h"

/* One capture: its origin and the streams that have joined. */
struct sequence {
  struct sequence *next;
  uint64_t id;
  struct tsr_graph *graph;
  bool owns_graph; /* false: the program's own graph */
  bool invalid;
  struct tsr_capture_mark mark; /* mode and thread */
  struct tsr_context *context;
  uint32_t origin;
  struct tsr_edges left; /* the last nodes of joined streams that were destroyed */
};

/* A stream that captures: the nodes on which its next node will depend. */
struct tsr_capture {
  struct sequence *sequence;
  bool counted; /* in context.blocking_captures */
  struct tsr_edges tips;
  CUgraphNode *handles; /* of the last tsr_capture_info */
  CUgraphEdgeData *data;
};

static struct sequence *sequences; /* guarded by the graphs' lock */
static uint64_t next_id;           /* likewise */

static CUresult add_tip(struct tsr_edges *tips, struct tsr_node *node,
                        const CUgraphEdgeData *data) {
  static const CUgraphEdgeData whole;
  for (uint32_t i = 0; i < tips->count; i++)
    if (tips->list[i].node == node) return CUDA_SUCCESS;
  if (tips->count == tips->room) {
    const uint32_t room = tips->room ? 2 * tips->room : 4;
    struct tsr_edge *list = realloc(tips->list, room * sizeof *list);
    if (!list) return CUDA_ERROR_OUT_OF_MEMORY;
    tips->list = list;
    tips->room = room;
  }
  tips->list[tips->count++] = (struct tsr_edge){.node = node, .data = data ? *data : whole};
  return CUDA_SUCCESS;
}

static CUresult add_tips(struct tsr_edges *to, const struct tsr_edges *from) {
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < from->count && result == CUDA_SUCCESS; i++)
    result = add_tip(to, from->list[i].node, &from->list[i].data);
  return result;
}

static void leave(struct tsr_context *context, uint32_t stream) {
  struct tsr_capture *capture = context->captures[stream];
  context->captures[stream] = NULL;
  atomic_store(&context->capturing[stream], false);
  if (capture->counted) atomic_fetch_sub(&context->blocking_captures, 1);
  free(capture->tips.list);
  free(capture->handles);
  free(capture->data);
  free(capture);
}

static CUresult join(struct tsr_context *context, uint32_t stream, struct sequence *sequence) {
  struct tsr_capture *capture = calloc(1, sizeof *capture);
  if (!capture) return CUDA_ERROR_OUT_OF_MEMORY;
  capture->sequence = sequence;
  context->captures[stream] = capture;
  atomic_store(&context->capture_misused[stream], false);
  capture->counted = tsr_is_blocking(context, stream);
  if (capture->counted) atomic_fetch_add(&context->blocking_captures, 1);
  atomic_store(&context->capturing[stream], true);
  return CUDA_SUCCESS;
}

static struct sequence *find(uint64_t id) {
  struct sequence *one = sequences;
  while (one && one->id != id) one = one->next;
  return one;
}

/* Note misuse that was detected without the lock: in tsr_ring_begin, and by unsafe calls. */
static bool is_invalid(struct sequence *sequence) {
  struct tsr_context *context = sequence->context;
  if (atomic_load(&sequence->mark.broken)) sequence->invalid = true;
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++) {
    const struct tsr_capture *capture = context->captures[i];
    if (!capture || capture->sequence != sequence) continue;
    if (atomic_load(&context->capture_misused[i])) sequence->invalid = true;
    if (capture->counted && atomic_load(&context->capture_misused[TSR_LEGACY_STREAM]))
      sequence->invalid = true;
  }
  return sequence->invalid;
}

CUresult tsr_capture_begin(struct tsr_context *context, uint32_t stream,
                           const struct tsr_capture_start *start) {
  if (stream == TSR_LEGACY_STREAM) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (context->captures[stream]) return CUDA_ERROR_ILLEGAL_STATE;
  if (start->mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < start->count; i++)
    if (!start->dependencies[i] || start->dependencies[i]->graph != start->graph)
      return CUDA_ERROR_INVALID_VALUE;
  struct sequence *sequence = calloc(1, sizeof *sequence);
  if (!sequence) return CUDA_ERROR_OUT_OF_MEMORY;
  *sequence = (struct sequence){.id = ++next_id,
                                .graph = start->graph ? start->graph : tsr_graph_new(),
                                .owns_graph = !start->graph,
                                .mark = {.mode = start->mode, .thread = pthread_self()},
                                .context = context,
                                .origin = stream};
  if (atomic_load(&context->blocking_captures) == 0)
    atomic_store(&context->capture_misused[TSR_LEGACY_STREAM], false);
  if (!sequence->graph || join(context, stream, sequence) != CUDA_SUCCESS) {
    if (sequence->graph && sequence->owns_graph) tsr_graph_free(sequence->graph);
    free(sequence);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  sequence->graph->captures++;
  sequence->next = sequences;
  sequences = sequence;
  tsr_capture_mark_add(&sequence->mark);
  return tsr_capture_set_tips(context, stream, start->dependencies, start->data, start->count,
                              true);
}

/* Whether every last node of the joined streams leads to the last nodes of the origin. */
static bool is_joined(const struct sequence *sequence) {
  struct tsr_context *context = sequence->context;
  struct tsr_graph *graph = sequence->graph;
  struct tsr_node **order = malloc((graph->count + 1) * sizeof(struct tsr_node *));
  if (!order || tsr_graph_sort(graph, order) != CUDA_SUCCESS) {
    free(order);
    return false;
  }
  const struct tsr_edges *tips = &context->captures[sequence->origin]->tips;
  for (uint32_t i = 0; i < tips->count; i++) tips->list[i].node->mark = 1;
  for (uint32_t i = graph->count; i-- > 0;)
    for (uint32_t j = 0; order[i]->mark && j < order[i]->before.count; j++)
      order[i]->before.list[j].node->mark = 1;
  bool joined = true;
  for (uint32_t stream = 0; stream < TESSERA_MAX_STREAMS; stream++) {
    const struct tsr_capture *capture = context->captures[stream];
    if (!capture || capture->sequence != sequence) continue;
    for (uint32_t i = 0; i < capture->tips.count; i++) joined &= capture->tips.list[i].node->mark;
  }
  for (uint32_t i = 0; i < sequence->left.count; i++) joined &= sequence->left.list[i].node->mark;
  for (uint32_t i = 0; i < graph->count; i++) graph->nodes[i]->mark = 0;
  free(order);
  return joined;
}

/* Remove a capture; `keep`: its graph goes to the program. */
static void dissolve(struct sequence *sequence, bool keep) {
  struct tsr_context *context = sequence->context;
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++)
    if (context->captures[i] && context->captures[i]->sequence == sequence) leave(context, i);
  struct sequence **link = &sequences;
  while (*link != sequence) link = &(*link)->next;
  *link = sequence->next;
  tsr_capture_mark_remove(&sequence->mark);
  sequence->graph->captures--;
  if (!keep && sequence->owns_graph) tsr_graph_free(sequence->graph);
  free(sequence->left.list);
  free(sequence);
}

CUresult tsr_capture_end(struct tsr_context *context, uint32_t stream, struct tsr_graph **graph) {
  *graph = NULL;
  struct tsr_capture *capture = context->captures[stream];
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  struct sequence *sequence = capture->sequence;
  if (sequence->origin != stream) {
    sequence->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (sequence->mark.mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      !pthread_equal(sequence->mark.thread, pthread_self()))
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = CUDA_SUCCESS;
  if (is_invalid(sequence))
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (!is_joined(sequence))
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (result == CUDA_SUCCESS) *graph = sequence->graph;
  dissolve(sequence, result == CUDA_SUCCESS);
  return result;
}

bool tsr_capture_is_into_graph(struct tsr_context *context, uint32_t stream) {
  const struct tsr_capture *capture = context->captures[stream];
  return capture && !capture->sequence->owns_graph;
}

void tsr_capture_abandon(struct tsr_context *context, uint32_t stream) {
  tsr_graphs_lock();
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++) {
    struct tsr_capture *capture = context->captures[i];
    if (!capture || (stream != i && stream != TESSERA_MAX_STREAMS)) continue;
    struct sequence *sequence = capture->sequence;
    if (sequence->origin == i || stream == TESSERA_MAX_STREAMS) {
      dissolve(sequence, false);
      continue;
    }
    if (is_invalid(sequence) || add_tips(&sequence->left, &capture->tips) != CUDA_SUCCESS)
      sequence->invalid = true;
    leave(context, i);
  }
  tsr_graphs_unlock();
}

CUresult tsr_capture_add(struct tsr_context *context, uint32_t stream,
                         struct tsr_operation *operation) {
  tsr_graphs_lock();
  struct tsr_capture *capture = context->captures[stream];
  CUresult result = CUDA_SUCCESS;
  if (!capture)
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* it has just ended */
  else if (is_invalid(capture->sequence))
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (result != CUDA_SUCCESS) {
    tsr_operation_discard(operation);
    tsr_graphs_unlock();
    return result;
  }
  struct tsr_edges *tips = &capture->tips;
  struct tsr_node *made = NULL;
  result = tsr_graph_add_new(capture->sequence->graph, operation, NULL, NULL, 0, &made);
  for (uint32_t i = 0; i < tips->count && result == CUDA_SUCCESS; i++)
    result = tsr_edge_add(tips->list[i].node, made, &tips->list[i].data);
  if (result == CUDA_SUCCESS) {
    tips->count = 0;
    result = add_tip(tips, made, NULL);
  }
  if (result != CUDA_SUCCESS) capture->sequence->invalid = true;
  tsr_graphs_unlock();
  return result;
}

CUresult tsr_capture_record(struct tsr_context *context, uint32_t stream,
                            struct tsr_captured_event *event) {
  tsr_graphs_lock();
  struct tsr_capture *capture = context->captures[stream];
  CUresult result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (capture && is_invalid(capture->sequence)) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (capture) {
    event->sequence = capture->sequence->id;
    event->tips.count = 0;
    result = add_tips(&event->tips, &capture->tips);
  }
  tsr_graphs_unlock();
  return result;
}

bool tsr_capture_has_event(const struct tsr_captured_event *event) { return event->sequence != 0; }

bool tsr_capture_break_event(const struct tsr_captured_event *event) {
  tsr_graphs_lock();
  struct sequence *sequence = event->sequence ? find(event->sequence) : NULL;
  if (sequence) sequence->invalid = true;
  tsr_graphs_unlock();
  return sequence != NULL;
}

static CUresult wait_locked(struct tsr_context *context, uint32_t stream,
                            const struct tsr_captured_event *event) {
  struct sequence *sequence = find(event->sequence);
  struct tsr_capture *capture = context->captures[stream];
  if (!sequence) { /* the event's capture has ended */
    if (capture) capture->sequence->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (capture && capture->sequence != sequence) {
    capture->sequence->invalid = sequence->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (sequence->context != context) {
    sequence->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream == TSR_LEGACY_STREAM) {
    sequence->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (is_invalid(sequence)) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!capture) {
    const CUresult result = join(context, stream, sequence);
    if (result != CUDA_SUCCESS) return result;
  }
  return add_tips(&context->captures[stream]->tips, &event->tips);
}

CUresult tsr_capture_wait(struct tsr_context *context, uint32_t stream,
                          const struct tsr_captured_event *event) {
  tsr_graphs_lock();
  const CUresult result = wait_locked(context, stream, event);
  tsr_graphs_unlock();
  return result;
}

CUresult tsr_capture_break(struct tsr_context *context, uint32_t stream, CUresult why) {
  tsr_graphs_lock();
  if (context->captures[stream]) context->captures[stream]->sequence->invalid = true;
  tsr_graphs_unlock();
  return why;
}

bool tsr_capture_break_all(struct tsr_context *context) {
  bool found = false;
  tsr_graphs_lock();
  for (struct sequence *one = sequences; one; one = one->next)
    if (one->context == context) found = one->invalid = true;
  tsr_graphs_unlock();
  return found;
}

CUresult tsr_capture_info(struct tsr_context *context, uint32_t stream,
                          struct tsr_capture_info *info) {
  *info = (struct tsr_capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
  struct tsr_capture *capture = context->captures[stream];
  if (!capture) return CUDA_SUCCESS;
  const struct tsr_edges *tips = &capture->tips;
  CUgraphNode *handles = realloc(capture->handles, (tips->count + 1) * sizeof *handles);
  if (!handles) return CUDA_ERROR_OUT_OF_MEMORY;
  capture->handles = handles;
  CUgraphEdgeData *data = realloc(capture->data, (tips->count + 1) * sizeof *data);
  if (!data) return CUDA_ERROR_OUT_OF_MEMORY;
  capture->data = data;
  for (uint32_t i = 0; i < tips->count; i++) {
    handles[i] = (CUgraphNode)(uintptr_t)tsr_object_handle(TSR_NODE, tips->list[i].node);
    data[i] = tips->list[i].data;
  }
  *info = (struct tsr_capture_info){.status = is_invalid(capture->sequence)
                                                  ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE,
                                    .id = capture->sequence->id,
                                    .graph = capture->sequence->graph,
                                    .handles = handles,
                                    .data = data,
                                    .count = tips->count};
  return CUDA_SUCCESS;
}

CUresult tsr_capture_set_tips(struct tsr_context *context, uint32_t stream,
                              struct tsr_node *const *nodes, const CUgraphEdgeData *data,
                              size_t count, bool replace) {
  struct tsr_capture *capture = context->captures[stream];
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  for (size_t i = 0; i < count; i++)
    if (!nodes[i] || nodes[i]->graph != capture->sequence->graph) return CUDA_ERROR_INVALID_VALUE;
  if (replace) capture->tips.count = 0;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
    result = add_tip(&capture->tips, nodes[i], data ? &data[i] : NULL);
  return result;
}
