/* The blocks that a thread of the pool has begun and not ended.
 *
 * It runs one block at a time. Where the groups of that one only wait for what others write, it
 * runs the next one of its blocks; where all of them only wait, it begins another block, which they
 * may be waiting for, as long as the device has room for one; and where there is none it makes way
 * for other threads. Blocks begin in the order of their index. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "blocks/cta.h"
#include "base/internal.h"
#include "base/platform.h"

enum { PATIENCE_ROUNDS = 2, BUSY_ROUNDS = 8, KEPT = 4 };
static const uint64_t YIELDING_NS = 2000000;
static const uint64_t NAP_NS = 50000;

typedef struct resident {
  tw_cta cta;
  void *saved; /* its shared memory, while another block's is in the thread's window; NULL: none */
} resident;

/* Of one thread. The first `count` have a block each; of the others some keep their stacks. */
typedef struct residents {
  tw_fiber home; /* the thread's own stack */
  resident **all;
  uint32_t made, count;
  resident *inside; /* whose shared memory is in the window; NULL: nobody's */
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

/* One that has no block. */
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

/* Makes the window hold a block's shared memory; NULL: nobody's. */
static void let_in(residents *r, resident *one, uint32_t bytes) {
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
  let_in(r, NULL, launch->shared_bytes);
  tw_cta_prepare(&one->cta, launch, code, parameters, tw_shared_window(launch->shared_bytes),
                 &r->home);
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

/* Whether one more block may be begun beside others, of all threads. */
static bool take_room(tw_launch *launch) {
  uint32_t room = __atomic_load_n(&launch->room, __ATOMIC_RELAXED);
  while (room != 0)
    if (__atomic_compare_exchange_n(&launch->room, &room, room - 1, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return true;
  return false;
}

static void give_room(tw_launch *launch) {
  __atomic_add_fetch(&launch->room, 1, __ATOMIC_RELAXED);
}

static void make_way(uint32_t rounds, uint64_t *since_ns) {
  if (rounds < BUSY_ROUNDS) return;
  const uint64_t now = tw_now_ns();
  if (rounds == BUSY_ROUNDS) *since_ns = now;
  if (now - *since_ns < YIELDING_NS) {
    sched_yield();
    return;
  }
  const struct timespec nap = {.tv_nsec = (long)NAP_NS};
  nanosleep(&nap, NULL);
}

/* Gives back what a launch needed that let many blocks wait. */
static void keep_few(residents *r) {
  while (r->made > KEPT && r->made > r->count) {
    resident *last = r->all[--r->made];
    tw_stacks_close(&last->cta.stacks);
    free(last);
  }
}

/* Lets every block run in turn, there and back: whoever waits for its neighbour, before or behind,
 * has it by the next round. Returns whether one of them has ended. */
static bool run_round(residents *r, tw_launch *launch, bool back) {
  bool ended = false;
  for (uint32_t left = r->count, turn = 0; left > 0; left--) {
    const uint32_t index = back ? left - 1 : turn;
    let_in(r, r->all[index], launch->shared_bytes);
    if (tw_cta_continue(&r->all[index]->cta)) {
      ended = true;
      end_one(r, index);
      if (r->count > 0) give_room(launch);
    } else {
      turn++;
    }
  }
  return ended;
}

/* Blocks `first` to `end`, and what they wait for. */
static void run_polling(residents *r, tw_launch *launch, const uint8_t *parameters, uint64_t first,
                        uint64_t end) {
  uint64_t since_ns = 0;
  uint32_t rounds = 0; /* in which no block ended or began */
  bool back = false;
  for (;;) {
    if (r->count == 0) {
      if (first == end) {
        keep_few(r);
        return;
      }
      begin(r, launch, tw_code_now(launch), parameters, first, first + 1);
      first++;
    }
    if (run_round(r, launch, back)) {
      rounds = 0;
      continue;
    }
    back = !back;
    if (++rounds < PATIENCE_ROUNDS) continue;
    const bool room = take_room(launch);
    if (room && (first != end || tw_pool_claim(&first, &end))) {
      begin(r, launch, tw_code_now(launch), parameters, first, first + 1);
      first++;
      rounds = 0;
      back = true;
    } else {
      if (room) give_room(launch);
      make_way(rounds, &since_ns);
    }
  }
}

void tw_cta_run(tw_launch *launch, const tw_code *code, const uint8_t *parameters, uint64_t first,
                uint64_t end) {
  residents *r = of_this_thread();
  if (code->polls) { /* so does all code of this kernel */
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
  tw_shared_end_thread();
}
