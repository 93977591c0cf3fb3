/* Lists of requests in memory: the bodies of conditions and loops, and graphs that kernels can launch.
 * A list is copied slot by slot while it runs, and each copy is checked, because kernels may write
 * that memory meanwhile. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/internal.h"

/* A list that runs: the one at depth 0 is in the ring. */
typedef struct frame {
  tessera_list_body list;
  uint32_t place; /* of the next slot */
} frame;

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
  tessera_list_body next = list->slot.body.list;
  tw_graphs_begin(&next);
  do
    run_list(stream, &next, list->slot.value, r);
  while (!must_end() && tw_graphs_next(&next));
  tw_graphs_end();
  report(stream, list, r, list->slot.value, 0);
  free(r);
}

void tw_perform(uint32_t stream, request *r) {
  if (r->slot.opcode == TESSERA_OPCODE_LIST)
    run(stream, r);
  else
    tw_perform_whole(stream, r);
}
