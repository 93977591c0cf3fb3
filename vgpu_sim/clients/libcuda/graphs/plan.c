/* The plan of an executable graph: its steps in topological order, each in a lane, with the few
 * waits for steps of other lanes that are not implied by earlier ones. */
#include <stdlib.h>
#include <string.h>

#include "graphs/exec.h"

struct planner {
  struct tsr_exec *exec;
  int32_t (*known)[TSR_GRAPH_LANES]; /* per step and lane: the last step that is done before it */
  int32_t tails[TSR_GRAPH_LANES];    /* the last step of each lane */
};

static CUresult reserve(struct planner *planner) {
  struct tsr_exec *exec = planner->exec;
  if (exec->count < exec->room) return CUDA_SUCCESS;
  const uint32_t room = exec->room ? 2 * exec->room : 32;
  struct tsr_step *steps = realloc(exec->steps, room * sizeof *steps);
  if (!steps) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->steps = steps;
  void *known = realloc(planner->known, room * sizeof *planner->known);
  if (!known) return CUDA_ERROR_OUT_OF_MEMORY;
  planner->known = known;
  exec->room = room;
  return CUDA_SUCCESS;
}

/* Continue the lane of a step that it depends on; else take an unused lane; else the least
 * recently used one. */
static uint32_t choose_lane(const struct planner *planner, const int32_t *after, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t lane = planner->exec->steps[after[i]].lane;
    if (planner->tails[lane] == after[i]) return lane;
  }
  uint32_t best = 0;
  for (uint32_t lane = 0; lane < TSR_GRAPH_LANES; lane++)
    if (planner->tails[lane] < planner->tails[best]) best = lane;
  return best;
}

static void learn(int32_t *known, const int32_t *others) {
  for (uint32_t lane = 0; lane < TSR_GRAPH_LANES; lane++)
    if (others[lane] > known[lane]) known[lane] = others[lane];
}

/* Add a step after `count` others; returns its index, or TSR_NO_STEP without memory. */
static int32_t add_step(struct planner *planner, struct tsr_node *node, bool runs,
                        const int32_t *after, uint32_t count) {
  struct tsr_exec *exec = planner->exec;
  if (reserve(planner) != CUDA_SUCCESS) return TSR_NO_STEP;
  const int32_t index = (int32_t)exec->count++;
  struct tsr_step *step = &exec->steps[index];
  *step = (struct tsr_step){.node = node, .runs = runs};
  step->lane = choose_lane(planner, after, count);
  int32_t *known = planner->known[index];
  const int32_t before = planner->tails[step->lane];
  for (uint32_t lane = 0; lane < TSR_GRAPH_LANES; lane++) {
    known[lane] = before == TSR_NO_STEP ? TSR_NO_STEP : planner->known[before][lane];
    step->waits[lane] = TSR_NO_STEP;
  }
  known[step->lane] = before;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t lane = exec->steps[after[i]].lane;
    if (known[lane] < after[i] && after[i] > step->waits[lane]) step->waits[lane] = after[i];
  }
  for (uint32_t lane = 0; lane < TSR_GRAPH_LANES; lane++) {
    if (step->waits[lane] == TSR_NO_STEP) continue;
    learn(known, planner->known[step->waits[lane]]);
    if (step->waits[lane] > known[lane]) known[lane] = step->waits[lane];
  }
  planner->tails[step->lane] = index;
  if (step->lane >= exec->lanes) exec->lanes = step->lane + 1;
  return index;
}

static CUresult add_graph(struct planner *planner, const struct tsr_graph *graph, int32_t begin,
                          int32_t *leaves, uint32_t *leaf_count);

/* A child graph begins when the step `begin` is done; a last step joins its ends. */
static int32_t add_child(struct planner *planner, struct tsr_node *node, const int32_t *after,
                         uint32_t count) {
  const struct tsr_graph *child = node->operation.child;
  const int32_t begin = add_step(planner, node, false, after, count);
  int32_t *leaves = malloc((child->count + 1) * sizeof *leaves);
  uint32_t leaf_count = 0;
  int32_t end = TSR_NO_STEP;
  if (begin != TSR_NO_STEP && leaves &&
      add_graph(planner, child, begin, leaves, &leaf_count) == CUDA_SUCCESS) {
    if (leaf_count == 0) leaves[leaf_count++] = begin;
    end = add_step(planner, node, false, leaves, leaf_count);
  }
  free(leaves);
  return end;
}

static int32_t add_node(struct planner *planner, struct tsr_node *node, int32_t begin) {
  int32_t *after = malloc((node->before.count + 1) * sizeof *after);
  if (!after) return TSR_NO_STEP;
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->before.count; i++)
    after[count++] = (int32_t)node->before.list[i].node->step;
  if (count == 0 && begin != TSR_NO_STEP) after[count++] = begin;
  const int32_t step = node->operation.type == CU_GRAPH_NODE_TYPE_GRAPH
                           ? add_child(planner, node, after, count)
                           : add_step(planner, node, true, after, count);
  free(after);
  node->step = (uint32_t)step;
  return step;
}

static CUresult add_graph(struct planner *planner, const struct tsr_graph *graph, int32_t begin,
                          int32_t *leaves, uint32_t *leaf_count) {
  struct tsr_node **order = malloc((graph->count + 1) * sizeof(struct tsr_node *));
  CUresult result = order ? tsr_graph_sort(graph, order) : CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
    const int32_t step = add_node(planner, order[i], begin);
    if (step == TSR_NO_STEP)
      result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (leaves && order[i]->after.count == 0)
      leaves[(*leaf_count)++] = step;
  }
  free(order);
  return result;
}

CUresult tsr_exec_plan(struct tsr_exec *exec) {
  struct planner planner = {.exec = exec};
  for (uint32_t lane = 0; lane < TSR_GRAPH_LANES; lane++) planner.tails[lane] = TSR_NO_STEP;
  exec->count = exec->lanes = 0;
  free(exec->steps); /* the planner's lists grow together */
  exec->steps = NULL;
  exec->room = 0;
  exec->has_memory = tsr_graph_has_memory(exec->graph);
  CUresult result = add_graph(&planner, exec->graph, TSR_NO_STEP, NULL, NULL);
  free(planner.known);
  if (result != CUDA_SUCCESS) return result;
  uint64_t *values = realloc(exec->values, (exec->count + 1) * sizeof *values);
  if (!values) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->values = values;
  return CUDA_SUCCESS;
}
