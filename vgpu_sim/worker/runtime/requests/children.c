/* Grids that grids launch (CUDA C++ Programming Guide, "CUDA Dynamic Parallelism"). A grid's
 * children run when the grid has ended, one after the other and each with its own children, in the
 * order in which they were submitted; those of the tail stream come last. Programs cannot rely on
 * another order, because a grid has no means to wait for its children. The request of the outermost
 * grid is complete when all are. Graphs run when the list that contains the grid has ended (graphs.c). */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/internal.h"

/* Grids that have children left. A last child takes the place of its parent, so that a chain of
 * grids, each launched by the one before, needs no more of them. */
enum { MAX_FAMILIES = 1024 };

static bool must_end(void) {
  return __atomic_load_n(&tw.stopping, __ATOMIC_ACQUIRE) != 0 || tw_timelines_frozen();
}

static void perform(uint32_t stream, request *r) {
  r->children = NULL;
  if (tw.config.observer == NULL) {
    tw_execute(r);
  } else if (!tw_observe(stream, r)) {
    tw_execute(r);
    tw_observe_end(stream, r);
  }
}

static void run_children(uint32_t stream, const request *outermost, request *r) {
  struct tw_children *families[MAX_FAMILIES] = {outermost->children};
  uint32_t count = 1;
  while (count != 0 && !must_end()) {
    struct tw_children *family = families[count - 1];
    const bool found = tw_children_next(family, r);
    if (!found || !tw_children_remain(family)) {
      count--;
      tw_children_free(family);
    }
    if (!found) continue;
    if (r->slot.opcode == TESSERA_OPCODE_LIST) {
      tw_graph_submit(r);
      continue;
    }
    /* An observer places the children before the end of the outermost grid's request. */
    r->slot.value = outermost->slot.value - 1;
    perform(stream, r);
    if (r->children == NULL) continue;
    if (count == MAX_FAMILIES)
      tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                      .error = CUDA_ERROR_LAUNCH_FAILED,
                      .message = "too many grids have launched one another"});
    families[count++] = r->children;
  }
  while (count != 0) tw_children_free(families[--count]);
}

void tw_perform_whole(uint32_t stream, request *r) {
  perform(stream, r);
  if (r->children == NULL) return;
  tw_lead_pass();
  request *child = aligned_alloc(_Alignof(request), sizeof *child);
  if (child == NULL) tw_die_out_of_memory("no memory to run what a kernel launched");
  run_children(stream, r, child);
  r->children = NULL;
  free(child);
}
