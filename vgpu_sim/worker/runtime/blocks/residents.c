/* The blocks that a thread of the pool has started and not finished.
 *
 * The thread runs one block at a time. If the block's groups only wait for memory that other
 * blocks write, the thread runs its next block (rounds.c). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "blocks/cta.h"
#include "blocks/room.h"
#include "blocks/rounds.h"
#include "base/internal.h"
#include "base/platform.h"

enum { PATIENCE_ROUNDS = 2, KEPT = 4 };

typedef struct resident {
  tw_cta cta;
  void *saved; /* its shared memory, while the window holds another block's; NULL: none */
} resident;

/* The blocks of one thread. The first `count` are in use; some of the others keep their stacks. */
typedef struct residents {
  tw_fiber home; /* the thread's own stack */
  resident **all;
  uint32_t made, count;
  resident *inside; /* block whose shared memory is in the window; NULL: none */
} residents;

static __thread residents *mine; /* NULL: the thread has run no block yet */

static residents *of_this_thread(void) {
  if (mine == NULL) {
    mine = calloc(1, sizeof *mine);
    if (mine == NULL) tw_die_out_of_memory("no memory for a block");
    tw_fiber_adopt_thread(&mine->home);
  }
  return mine;
}

/* Return an unused entry. */
static resident *next_resident(residents *r) {
  if (r->count == r->made) {
    resident **more = realloc(r->all, (r->made + 1) * sizeof *more);
    if (more != NULL) r->all = more;
    if (more == NULL || (more[r->made] = calloc(1, sizeof **more)) == NULL)
      tw_die_out_of_memory("no memory for a block");
    r->made++;
  }
  return r->all[r->count];
}

/* Load a block's shared memory into the window, after saving the current block's; NULL: only
 * save. */
static void load_window(residents *r, resident *one, uint32_t bytes) {
  if (r->inside == one || bytes == 0) return;
  void *window = (void *)(uintptr_t)tw_current.shared_window;
  if (r->inside != NULL) {
    if (r->inside->saved == NULL) r->inside->saved = malloc(bytes);
    if (r->inside->saved == NULL) tw_die_out_of_memory("no memory for a block's shared memory");
    memcpy(r->inside->saved, window, bytes);
  }
  if (one != NULL) memcpy(window, one->saved, bytes);
  r->inside = one;
}

static void begin(residents *r, tw_launch *launch, const tw_code *code, const uint8_t *parameters,
                  uint64_t first, uint64_t end) {
  resident *one = next_resident(r);
  load_window(r, NULL, launch->shared_bytes);
  tw_cta_prepare(&one->cta, launch, code, parameters, tw_shared_window(launch->shared_bytes),
                 &r->home, NULL);
  tw_cta_begin(&one->cta, first, end);
  r->inside = one;
  r->count++;
}

static void end_one(residents *r, uint32_t index) {
  resident *ended = r->all[index];
  r->count--;
  memmove(&r->all[index], &r->all[index + 1], (r->count - index) * sizeof *r->all);
  r->all[r->count] = ended;
  r->inside = NULL;
  free(ended->saved);
  ended->saved = NULL;
}

/* Free unused entries, after a launch that kept many blocks waiting. */
static void keep_few(residents *r) {
  while (r->made > KEPT && r->made > r->count) {
    resident *last = r->all[--r->made];
    tw_stacks_close(&last->cta.stacks);
    free(last);
  }
}

/* Run every block once; returns whether one has ended. */
static bool run_round(tw_launch *launch, bool back) {
  residents *r = mine;
  bool ended = false;
  for (uint32_t left = r->count, turn = 0; left > 0; left--) {
    const uint32_t index = back ? left - 1 : turn;
    load_window(r, r->all[index], launch->shared_bytes);
    if (tw_cta_continue(&r->all[index]->cta)) {
      ended = true;
      end_one(r, index);
      if (r->count > 0) tw_room_give(launch);
    } else {
      turn++;
    }
  }
  return ended;
}

static uint32_t count(void) { return mine->count; }

static void begin_polling(tw_launch *launch, const uint8_t *parameters, uint64_t number) {
  begin(mine, launch, tw_code_now(launch), parameters, number, number + 1);
}

/* Run blocks `first` to `end`, and the blocks for which they wait. */
static void run_polling(residents *r, tw_launch *launch, const uint8_t *parameters, uint64_t first,
                        uint64_t end) {
  static const tw_rounds POLLING = {
      .patience = PATIENCE_ROUNDS, .count = count, .begin = begin_polling, .run = run_round};
  tw_rounds_run(&POLLING, launch, parameters, first, end);
  keep_few(r);
}

void tw_cta_run(tw_launch *launch, const tw_code *code, const uint8_t *parameters, uint64_t first,
                uint64_t end) {
  residents *r = of_this_thread();
  if (code->polls) { /* then all code of this kernel does */
    run_polling(r, launch, parameters, first, end);
    return;
  }
  begin(r, launch, code, parameters, first, end);
  tw_cta_continue(&r->all[0]->cta);
  end_one(r, 0);
}

void tw_cta_end_thread(void) {
  for (uint32_t i = 0; mine != NULL && i < mine->made; i++) {
    tw_stacks_close(&mine->all[i]->cta.stacks);
    tw_local_close(&mine->all[i]->cta.local);
    free(mine->all[i]->saved);
    free(mine->all[i]);
  }
  if (mine != NULL) free(mine->all);
  free(mine);
  mine = NULL;
  tw_clusters_end_thread();
  tw_shared_end_thread();
}
