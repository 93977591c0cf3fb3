/* Lists of requests in memory: the bodies of conditions and loops, and graphs that kernels can launch.
 * A list is copied slot by slot while it runs, and each copy is checked, because kernels may write
 * that memory meanwhile.
 *
 * A graph from a kernel runs when its parent, the list that contains the kernel, has ended: those of
 * the tail stream after the others and after all that these launch (CUDA C++ Programming Guide,
 * "Device Graph Launch"). Programs cannot rely on another order, as for grids (children.c). */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/internal.h"

/* A list that runs: the one at depth 0 is in the ring. */
typedef struct frame {
  tessera_list_body list;
  uint32_t place; /* of the next slot */
} frame;

enum { MAX_GRAPHS = 1 << 16 };

/* Graphs to run, the next one last. */
typedef struct graphs {
  tessera_list_body *lists;
  uint32_t count, room;
} graphs;

/* What the thread runs. */
typedef struct running {
  uint64_t current; /* the list */
  graphs waiting, fired, tails; /* the latter two are from kernels of the current list */
} running;

static __thread running *now; /* NULL: no list */

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

void tw_graph_submit(const request *r) {
  if (now == NULL)
    tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                    .error = CUDA_ERROR_LAUNCH_FAILED,
                    .message = "a kernel that is not in a graph launched one"});
  add(r->tail ? &now->tails : &now->fired, &r->slot.body.list);
}

uint64_t tw_graph_current(void) { return now != NULL ? now->current : 0; }

/* Put the graphs that the current list launched before all that wait, and take the next one. */
static bool next_graph(tessera_list_body *list) {
  graphs *const launched[] = {&now->tails, &now->fired};
  for (int i = 0; i < 2; i++)
    while (launched[i]->count != 0) add(&now->waiting, &launched[i]->lists[--launched[i]->count]);
  if (now->waiting.count == 0) return false;
  *list = now->waiting.lists[--now->waiting.count];
  now->current = list->address;
  return true;
}

static bool holds(const tessera_list_body *list) {
  if (list->when == TESSERA_WHEN_ALWAYS) return true;
  const void *place = (const void *)(uintptr_t)list->condition;
  tw_chunks_lock();
  const bool live = tw_chunks_cover_locked(list->condition, sizeof(uint32_t));
  const uint32_t seen = live ? __atomic_load_n((const uint32_t *)place, __ATOMIC_ACQUIRE) : 0;
  tw_chunks_unlock();
  if (!live)
    tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                    .error = CUDA_ERROR_LAUNCH_FAILED,
                    .address = list->condition,
                    .message = "the value of a condition is not in live memory"});
  return (seen == list->value) == (list->when == TESSERA_WHEN_EQUAL);
}

static bool must_end(void) {
  return __atomic_load_n(&tw.stopping, __ATOMIC_ACQUIRE) != 0 || tw_timelines_frozen();
}

/* Run a list; `value` is that of the request in the ring. */
static void run_list(uint32_t stream, const tessera_list_body *list, uint64_t value, request *r) {
  frame frames[TESSERA_MAX_LIST_DEPTH];
  uint32_t depth = 0;
  frames[0] = (frame){.list = *list};
  bool runs = holds(&frames[0].list);
  while (!must_end()) {
    frame *top = &frames[depth];
    if (runs && top->place < top->list.slots) {
      top->place = tw_list_fetch(r, &top->list, top->place);
      /* An observer places the requests before the end of the list in the ring. */
      r->slot.value = value - 1;
      if (r->slot.opcode != TESSERA_OPCODE_LIST) {
        tw_perform_whole(stream, r);
        continue;
      }
      if (depth + 1 == TESSERA_MAX_LIST_DEPTH)
        tw_die(&(fault){.kind = TESSERA_FAULT_KIND_PROTOCOL,
                        .error = CUDA_ERROR_LAUNCH_FAILED,
                        .message = "lists are nested too deeply"});
      frames[++depth] = (frame){.list = r->slot.body.list};
      runs = holds(&frames[depth].list);
    } else if (runs && top->list.repeat != 0 && holds(&top->list)) {
      top->place = 0;
    } else {
      if (depth-- == 0) return;
      runs = true;
    }
  }
}

/* Report the beginning or the end of a list; `scratch` is overwritten. */
static void report(uint32_t stream, const request *list, request *scratch, uint64_t value,
                   uint8_t wait_count) {
  if (tw.config.observer == NULL) return;
  scratch->slot = list->slot;
  scratch->slot.opcode = TESSERA_OPCODE_NOP;
  scratch->slot.value = value;
  scratch->slot.wait_count = wait_count;
  tw_observe(stream, scratch);
}

static void run(uint32_t stream, const request *list) {
  request *r = aligned_alloc(_Alignof(request), sizeof *r);
  if (r == NULL) tw_die_out_of_memory("no memory to run a list of requests");
  r->depth = 0;
  report(stream, list, r, list->slot.value - 1, list->slot.wait_count);
  running all = {.current = list->slot.body.list.address};
  now = &all;
  tessera_list_body next = list->slot.body.list;
  do
    run_list(stream, &next, list->slot.value, r);
  while (!must_end() && next_graph(&next));
  now = NULL;
  free(all.waiting.lists);
  free(all.fired.lists);
  free(all.tails.lists);
  report(stream, list, r, list->slot.value, 0);
  free(r);
}

void tw_perform(uint32_t stream, request *r) {
  if (r->slot.opcode == TESSERA_OPCODE_LIST)
    run(stream, r);
  else
    tw_perform_whole(stream, r);
}
