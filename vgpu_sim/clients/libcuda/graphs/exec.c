#include "graphs/exec.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/refuse.h"
#include "callbacks/later.h"
#include "contexts/context.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "graphs/bodies.h"
#include "graphs/conditional.h"
#include "graphs/run.h"
#include "log.h"
#include "modules/launch_buffer.h"
#include "streams/stream_ring.h"

static pthread_cond_t launched = PTHREAD_COND_INITIALIZER;
static uint32_t next_id; /* guarded by the graphs' lock */

struct tsr_exec *tsr_exec_find(uint64_t handle) {
  struct tsr_exec *exec;
  while ((exec = TSR_FIND(tsr_exec, TSR_GRAPH_EXEC, handle)) && exec->launching)
    tsr_graphs_wait(&launched);
  return exec;
}

void tsr_exec_launched(struct tsr_exec *exec) {
  tsr_graphs_lock();
  exec->launching = false;
  pthread_cond_broadcast(&launched);
  tsr_graphs_unlock();
}

static void free_graph(void *graph) { tsr_graph_free(graph); }

void tsr_exec_drop_graph(const struct tsr_exec *exec, struct tsr_graph *graph) {
  if (exec->last_context && tsr_graph_has_objects(graph))
    tsr_later(exec->last_context, free_graph, graph, tsr_graphs_sweep);
  else
    tsr_graph_free(graph);
}

struct run {
  struct tsr_exec *exec;
  struct tsr_context *context;
  uint32_t rings[TSR_GRAPH_LANES], lanes;
  struct tsr_graph_lane *taken[TSR_GRAPH_LANES];
  bool entered[TSR_GRAPH_LANES]; /* the lane already follows the beginning of the launch */
  tessera_wait begin;
};

/* Whether the lane's work, if any, comes before the stream's next request. Only such a lane can be
 * used: another stream's work may wait for something that comes after this launch. */
static bool may_use(const struct tsr_context *context, const struct tsr_graph_lane *lane,
                    uint32_t stream) {
  return !lane->taken && (lane->stream == stream || tsr_stream_idle(context, lane->ring));
}

/* Take up to `wanted` lanes. With fewer lanes more steps share a ring; their order in it is a
 * topological one. */
static void take_lanes(struct run *run, uint32_t wanted) {
  struct tsr_context *context = run->context;
  const uint32_t stream = run->rings[0];
  pthread_mutex_lock(&context->graph_lane_lock);
  for (uint32_t i = 0; i < TSR_GRAPH_RINGS && run->lanes < wanted; i++) {
    struct tsr_graph_lane *lane = &context->graph_lanes[i];
    if (i == context->graph_lane_count) {
      if (tsr_stream_ring_open(context, false, &lane->ring) != CUDA_SUCCESS) break;
      context->graph_lane_count++;
    } else if (!may_use(context, lane, stream)) {
      continue;
    }
    lane->taken = true;
    lane->stream = stream;
    run->taken[run->lanes] = lane;
    run->rings[run->lanes++] = lane->ring;
  }
  pthread_mutex_unlock(&context->graph_lane_lock);
}

static void give_lanes(struct run *run) {
  pthread_mutex_lock(&run->context->graph_lane_lock);
  for (uint32_t lane = 1; lane < run->lanes; lane++) run->taken[lane]->taken = false;
  pthread_mutex_unlock(&run->context->graph_lane_lock);
}

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
 * wait for. A launch in another context is not on this context's timelines: the client waits. */
static CUresult begin(struct run *run) {
  const struct tsr_exec *exec = run->exec;
  const uint32_t stream = run->rings[0];
  const bool again = exec->last_context == tsr_object_handle(TSR_CONTEXT, run->context) &&
                     exec->last.stream != stream;
  CUresult result = CUDA_SUCCESS;
  struct tsr_context *before = TSR_FIND(tsr_context, TSR_CONTEXT, exec->last_context);
  if (before && before != run->context) tsr_wait(before, exec->last.stream, exec->last.value);
  if (again || run->lanes > 1) result = tsr_ring_wait(run->context, stream, &exec->last, again);
  if (result == CUDA_SUCCESS && exec->has_conditions)
    result = tsr_conditions_begin(exec->graph, run->context, stream);
  run->entered[0] = true;
  run->begin = (tessera_wait){.stream = stream, .value = tsr_ring_last(run->context, stream)};
  return result;
}

/* An entry of the launch buffer whose list launches may still need. */
struct old_entry {
  uint64_t context;
  uint32_t place;
};

static void forget_entry(void *data) {
  struct old_entry *entry = data;
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, entry->context);
  if (context) tsr_launch_buffer_forget(context, entry->place);
  free(entry);
}

static void forget_list(struct tsr_exec *exec) {
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, exec->whole_context);
  if (context && exec->place != 0) {
    tsr_launch_buffer_retire(context, exec->place);
    struct old_entry *entry = malloc(sizeof *entry); /* without memory the entry stays */
    if (entry) {
      *entry = (struct old_entry){.context = exec->whole_context, .place = exec->place};
      tsr_later(exec->whole_context, forget_entry, entry, tsr_graphs_sweep);
    }
  }
  exec->place = 0;
  tsr_listed_release(&exec->whole, exec->whole_context);
  exec->whole_context = 0;
}

static CUresult check_context(const struct tsr_exec *exec, const struct tsr_context *context) {
  if (exec->context && exec->context != tsr_object_handle(TSR_CONTEXT, context))
    TSR_REFUSE("a graph in a stream of another context than its nodes'");
  return CUDA_SUCCESS;
}

/* The lock's end releases what no work needs. */
static void make_room(struct tsr_context *context) {
  if (!tsr_launch_buffer_must_wait(context)) return;
  tsr_wait_all(context);
  tsr_graphs_lock();
  tsr_graphs_unlock();
}

/* Called without the graphs' lock. */
CUresult tsr_exec_upload(struct tsr_exec *exec, struct tsr_context *context) {
  if (!exec->is_list) return CUDA_SUCCESS;
  CUresult result = check_context(exec, context);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t handle = tsr_object_handle(TSR_CONTEXT, context);
  if (exec->whole_context == handle && !exec->lists_are_stale) return CUDA_SUCCESS;
  if (!(context->page->features & TESSERA_FEATURE_GRAPHS))
    TSR_REFUSE("a graph that kernels launch with a worker of an older version");
  forget_list(exec);
  bool cooperative;
  result = tsr_graph_list_make(exec->graph, context, &exec->whole, &cooperative);
  exec->whole_context = handle;
  exec->lists_are_stale = false;
  if (result == CUDA_SUCCESS && cooperative) {
    forget_list(exec);
    TSR_REFUSE("a graph that kernels launch with a cooperative kernel");
  }
  if (result == CUDA_SUCCESS) make_room(context);
  if (result == CUDA_SUCCESS)
    result = tsr_launch_buffer_publish(context, tsr_object_handle(TSR_GRAPH_EXEC, exec),
                                       !(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
                                       exec->whole.address, exec->whole.slots, &exec->place);
  if (result != CUDA_SUCCESS) forget_list(exec);
  return result;
}

/* Print once why cudaGraphLaunch in kernels of such a graph returns cudaErrorInvalidValue. */
static void explain_lanes(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&said))
    tsr_log("kernels of a graph can launch no graphs, because it has other nodes than kernels that are not "
            "cooperative, copies between device and pinned memory, fills, graphs and empty nodes");
}

/* Decide whether the graph runs as one list: if kernels can launch it, or if its kernels may launch
 * other graphs, and it has no nodes that a list cannot have. */
static void choose_list(struct tsr_exec *exec) {
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, exec->context);
  exec->is_list = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if (exec->is_list || !context || !tsr_graph_launches_graphs(exec->graph, context)) return;
  exec->is_list = !tsr_find_unlaunchable(exec->graph);
  if (!exec->is_list) explain_lanes();
}

/* Run a graph as one request. Then the worker knows which graph a kernel is
 * in, and when the graph has ended. */
static CUresult enqueue_list(struct run *run) {
  struct tsr_exec *exec = run->exec;
  const CUresult uploaded = tsr_exec_upload(exec, run->context);
  if (uploaded != CUDA_SUCCESS) return uploaded;
  const CUresult result = begin(run);
  if (result != CUDA_SUCCESS) return result;
  const tessera_list_body body = {.address = exec->whole.address,
                                  .slots = exec->whole.slots,
                                  .when = TESSERA_WHEN_ALWAYS};
  return tsr_list_enqueue(run->context, run->rings[0], &body);
}

static CUresult enqueue_steps(struct run *run) {
  struct tsr_exec *exec = run->exec;
  if (exec->lanes > 1) take_lanes(run, exec->lanes);
  CUresult result = begin(run);
  for (uint32_t i = 0; i < exec->count && result == CUDA_SUCCESS; i++) result = run_step(run, i);
  const CUresult joined = join(run);
  give_lanes(run);
  return result == CUDA_SUCCESS ? joined : result;
}

CUresult tsr_exec_enqueue(struct tsr_exec *exec, struct tsr_context *context, uint32_t stream) {
  const CUresult checked = check_context(exec, context);
  if (checked != CUDA_SUCCESS) return checked;
  if (exec->has_memory && !(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) &&
      tsr_graph_has_live_memory(exec->graph))
    return CUDA_ERROR_INVALID_VALUE;
  if (exec->lists_are_stale) choose_list(exec);
  if (exec->has_conditions && exec->lists_are_stale) {
    const CUresult made = tsr_lists_make(exec->graph, context);
    if (made != CUDA_SUCCESS) return made;
    exec->lists_are_stale = false;
  }
  struct run run = {.exec = exec, .context = context, .rings = {stream}, .lanes = 1};
  const CUresult result = exec->is_list ? enqueue_list(&run) : enqueue_steps(&run);
  if (!exec->is_list && !exec->has_conditions) exec->lists_are_stale = false;
  exec->last_context = tsr_object_handle(TSR_CONTEXT, context);
  exec->last = (tessera_wait){.stream = stream, .value = tsr_ring_last(context, stream)};
  return result;
}

/* Find the one context of all nodes; false: there are several. */
static bool find_context(const struct tsr_graph *graph, uint64_t *context,
                         struct tsr_node **failed) {
  for (uint32_t i = 0; i < graph->count; i++) {
    struct tsr_node *node = graph->nodes[i];
    const struct tsr_operation *operation = &node->operation;
    const struct tsr_graph *inner;
    for (uint32_t j = 0; (inner = tsr_inner_graph(operation, j)); j++)
      if (!find_context(inner, context, failed)) return false;
    if (!operation->context) continue;
    *failed = node;
    if (*context && *context != operation->context) return false;
    *context = operation->context;
  }
  *failed = NULL;
  return true;
}

static CUresult check(const struct tsr_graph *graph, uint64_t flags, uint64_t *context,
                      struct tsr_exec_failure *failure) {
  failure->why = CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
  if (!find_context(graph, context, &failure->node))
    TSR_REFUSE("a graph whose nodes belong to several contexts");
  failure->why = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
  if (tsr_conditions_unused(graph)) return CUDA_ERROR_INVALID_VALUE;
  failure->why = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
  failure->node = tsr_find_unlistable(graph);
  if (failure->node)
    TSR_REFUSE("the body of a conditional node with other nodes than kernels, copies, fills, "
               "graphs, empty and conditional nodes");
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) failure->node = tsr_find_unlaunchable(graph);
  if (failure->node)
    TSR_REFUSE("a graph that kernels launch with other nodes than kernels that are not cooperative, "
               "copies between device and pinned memory, fills, graphs and empty nodes");
  failure->why = CUDA_GRAPH_INSTANTIATE_ERROR;
  return CUDA_SUCCESS;
}

CUresult tsr_exec_new(struct tsr_graph *graph, uint64_t flags, struct tsr_exec **made,
                      struct tsr_exec_failure *failure) {
  uint64_t context = 0;
  const CUresult checked = check(graph, flags, &context, failure);
  if (checked != CUDA_SUCCESS) return checked;
  struct tsr_exec *exec = tsr_object_new(TSR_GRAPH_EXEC);
  if (!exec) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->flags = flags;
  exec->context = context;
  exec->id = ++next_id;
  CUresult result = tsr_graph_clone(graph, &exec->graph);
  if (result == CUDA_SUCCESS) result = tsr_exec_plan(exec);
  if (result == CUDA_SUCCESS) choose_list(exec);
  exec->has_conditions = tsr_graph_has_conditions(graph);
  exec->source = tsr_object_handle(TSR_GRAPH, graph);
  graph->executables++;
  struct tsr_context *found = TSR_FIND(tsr_context, TSR_CONTEXT, context);
  if (result == CUDA_SUCCESS && exec->has_conditions)
    result = found ? tsr_lists_make(exec->graph, found) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  tsr_object_publish(TSR_GRAPH_EXEC, exec);
  if (result != CUDA_SUCCESS)
    tsr_exec_free(exec);
  else
    *made = exec;
  return result;
}

void tsr_exec_free(struct tsr_exec *exec) {
  struct tsr_graph *source = TSR_GRAPH_OF(exec->source);
  if (source) source->executables--;
  forget_list(exec);
  tsr_object_retire(TSR_GRAPH_EXEC, tsr_object_handle(TSR_GRAPH_EXEC, exec));
  if (exec->graph) tsr_exec_drop_graph(exec, exec->graph);
  free(exec->steps);
  free(exec->values);
  tsr_object_free(TSR_GRAPH_EXEC, exec);
}
