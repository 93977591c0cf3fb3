/* Graphs that kernels launch (CUDA C++ Programming Guide, "Device Graph Launch"). Each is a list of
 * requests. It runs when its parent, the list that contains the kernel, has ended: those of the tail
 * stream after the others and after all that these launch. Programs cannot rely on another order, as
 * for grids (children.c). */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/internal.h"

enum { MAX_GRAPHS = 1 << 16 };

/* Graphs to run, the next one last. */
typedef struct graphs {
  tessera_list_body *lists;
  uint32_t count, room;
} graphs;

/* What a thread runs. */
typedef struct running {
  bool runs;
  uint64_t current;             /* the list */
  graphs waiting, fired, tails; /* the latter two are from kernels of the current list */
} running;

static __thread running now;

static void add(graphs *to, const tessera_list_body *list) {
  if (to->count == to->room) {
    const uint32_t room = to->room != 0 ? 2 * to->room : 8;
    tessera_list_body *lists =
        room <= MAX_GRAPHS ? realloc(to->lists, room * sizeof *lists) : NULL;
    if (lists == NULL)
      tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                      .error = CUDA_ERROR_LAUNCH_FAILED,
                      .message = "kernels launched too many graphs"});
    to->lists = lists;
    to->room = room;
  }
  to->lists[to->count++] = *list;
}

void tw_graphs_begin(const tessera_list_body *list) {
  now = (running){.runs = true, .current = list->address};
}

void tw_graph_submit(const request *r) {
  if (!now.runs)
    tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                    .error = CUDA_ERROR_LAUNCH_FAILED,
                    .message = "a kernel that is not in a graph launched one"});
  add(r->tail ? &now.tails : &now.fired, &r->slot.body.list);
}

uint64_t tw_graph_current(void) { return now.current; }

bool tw_graphs_next(tessera_list_body *list) {
  graphs *const launched[] = {&now.tails, &now.fired};
  for (int i = 0; i < 2; i++)
    while (launched[i]->count != 0) add(&now.waiting, &launched[i]->lists[--launched[i]->count]);
  if (now.waiting.count == 0) return false;
  *list = now.waiting.lists[--now.waiting.count];
  now.current = list->address;
  return true;
}

void tw_graphs_end(void) {
  free(now.waiting.lists);
  free(now.fired.lists);
  free(now.tails.lists);
  now = (running){0};
}
