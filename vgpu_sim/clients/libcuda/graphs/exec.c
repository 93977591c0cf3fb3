#include "graphs/exec.h"

#include <stdlib.h>

#include "base/refuse.h"
#include "contexts/context.h"
#include "exchange/ring.h"
#include "graphs/run.h"
#include "log.h"
#include "streams/stream_ring.h"

static uint32_t next_id; /* guarded by the graphs' lock */

/* Return how many lanes a context has, after reserving rings for up to `wanted`. With fewer lanes
 * more steps share a ring; their order in it is a topological one. */
static uint32_t take_lanes(struct tsr_context *context, uint32_t wanted, uint32_t *rings) {
  pthread_mutex_lock(&context->graph_lane_lock);
  while (context->graph_lane_count + 1 < wanted) {
    uint32_t *ring = &context->graph_lanes[context->graph_lane_count];
    if (tsr_stream_ring_open(context, false, ring) != CUDA_SUCCESS) break;
    context->graph_lane_count++;
  }
  const uint32_t made = context->graph_lane_count;
  for (uint32_t i = 0; i < made && i + 1 < TSR_GRAPH_LANES; i++)
    rings[i + 1] = context->graph_lanes[i];
  pthread_mutex_unlock(&context->graph_lane_lock);
  return made + 1 < wanted ? made + 1 : wanted;
}

struct run {
  struct tsr_exec *exec;
  struct tsr_context *context;
  uint32_t rings[TSR_GRAPH_LANES], lanes;
  bool entered[TSR_GRAPH_LANES]; /* the lane already follows the beginning of the launch */
  tessera_wait begin;
};

static CUresult run_step(struct run *run, uint32_t index) {
  struct tsr_exec *exec = run->exec;
  const struct tsr_step *step = &exec->steps[index];
  const uint32_t lane = step->lane % run->lanes, ring = run->rings[lane];
  tessera_wait waits[TSR_GRAPH_LANES + 1];
  uint32_t count = 0;
  if (!run->entered[lane]) waits[count++] = run->begin;
  run->entered[lane] = true;
  for (uint32_t other = 0; other < TSR_GRAPH_LANES; other++) {
    const int32_t awaited = step->waits[other];
    const uint32_t its_ring = run->rings[other % run->lanes];
    if (awaited == TSR_NO_STEP || its_ring == ring) continue;
    waits[count++] = (tessera_wait){.stream = its_ring, .value = exec->values[awaited]};
  }
  CUresult result = count ? tsr_ring_wait(run->context, ring, waits, count) : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS && step->runs && !step->node->disabled)
    result = tsr_operation_run(&step->node->operation, run->context, ring);
  exec->values[index] = tsr_ring_last(run->context, ring);
  return result;
}

/* The stream continues when all lanes have ended. */
static CUresult join(struct run *run) {
  tessera_wait waits[TSR_GRAPH_LANES];
  uint32_t count = 0;
  for (uint32_t lane = 1; lane < run->lanes; lane++)
    waits[count++] = (tessera_wait){.stream = run->rings[lane],
                                    .value = tsr_ring_last(run->context, run->rings[lane])};
  return count ? tsr_ring_wait(run->context, run->rings[0], waits, count) : CUDA_SUCCESS;
}

/* Wait for the previous launch of the same executable graph, and give other lanes a request to
 * wait for. */
static CUresult begin(struct run *run) {
  const struct tsr_exec *exec = run->exec;
  const uint32_t stream = run->rings[0];
  const bool again = exec->last_context == tsr_object_handle(TSR_CONTEXT, run->context) &&
                     exec->last.stream != stream;
  CUresult result = CUDA_SUCCESS;
  if (again || run->lanes > 1) result = tsr_ring_wait(run->context, stream, &exec->last, again);
  run->entered[0] = true;
  run->begin = (tessera_wait){.stream = stream, .value = tsr_ring_last(run->context, stream)};
  return result;
}

CUresult tsr_exec_enqueue(struct tsr_exec *exec, struct tsr_context *context, uint32_t stream) {
  if (exec->context && exec->context != tsr_object_handle(TSR_CONTEXT, context))
    TSR_REFUSE("a graph in a stream of another context than its nodes'");
  struct run run = {.exec = exec, .context = context, .rings = {stream}};
  run.lanes = exec->lanes > 1 ? take_lanes(context, exec->lanes, run.rings) : 1;
  CUresult result = begin(&run);
  for (uint32_t i = 0; i < exec->count && result == CUDA_SUCCESS; i++) result = run_step(&run, i);
  const CUresult joined = join(&run);
  exec->last_context = tsr_object_handle(TSR_CONTEXT, context);
  exec->last = (tessera_wait){.stream = stream, .value = tsr_ring_last(context, stream)};
  return result == CUDA_SUCCESS ? joined : result;
}

/* Find the one context of all nodes; false: there are several. */
static bool find_context(const struct tsr_graph *graph, uint64_t *context,
                         struct tsr_node **failed) {
  for (uint32_t i = 0; i < graph->count; i++) {
    struct tsr_node *node = graph->nodes[i];
    const struct tsr_operation *operation = &node->operation;
    if (operation->type == CU_GRAPH_NODE_TYPE_GRAPH) {
      if (!find_context(operation->child, context, failed)) return false;
    } else if (operation->context) {
      *failed = node;
      if (*context && *context != operation->context) return false;
      *context = operation->context;
    }
  }
  *failed = NULL;
  return true;
}

CUresult tsr_exec_new(const struct tsr_graph *graph, uint64_t flags, struct tsr_exec **made,
                      struct tsr_node **failed) {
  uint64_t context = 0;
  *failed = NULL;
  if (!find_context(graph, &context, failed))
    TSR_REFUSE("a graph whose nodes belong to several contexts");
  struct tsr_exec *exec = tsr_object_new(TSR_GRAPH_EXEC);
  if (!exec) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->flags = flags;
  exec->context = context;
  exec->id = ++next_id;
  CUresult result = tsr_graph_clone(graph, &exec->graph);
  if (result == CUDA_SUCCESS) result = tsr_exec_plan(exec);
  tsr_object_publish(TSR_GRAPH_EXEC, exec);
  if (result != CUDA_SUCCESS)
    tsr_exec_free(exec);
  else
    *made = exec;
  return result;
}

void tsr_exec_free(struct tsr_exec *exec) {
  tsr_object_retire(TSR_GRAPH_EXEC, tsr_object_handle(TSR_GRAPH_EXEC, exec));
  if (exec->graph) tsr_graph_free(exec->graph);
  free(exec->steps);
  free(exec->values);
  tsr_object_free(TSR_GRAPH_EXEC, exec);
}
