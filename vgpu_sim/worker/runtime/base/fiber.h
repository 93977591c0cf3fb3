/* Fibers: what runs one group of lanes of a block, on a stack of its own.
 *
 * A switch is a dozen instructions of user code: no system call, no signal mask, no floating-point
 * environment. A fiber never changes its thread. */
#ifndef TESSERA_WORKER_FIBER_H
#define TESSERA_WORKER_FIBER_H

#include <stdbool.h>

#include "tessera_abi.h"

typedef struct tw_cta tw_cta;
typedef struct tw_fiber tw_fiber;

/* fiber.c asserts the offsets that the switch knows. */
struct tw_fiber {
  tessera_thread_state state; /* first: what the group's code knows its fiber by */
  void *sp;                   /* while it does not run */
  tw_fiber *next;             /* whose turn it is after this one's */
  tw_fiber *previous;         /* on a ring that fibers leave */
  tw_cta *cta;
  uint32_t group;
  bool waits; /* for a barrier, or only for its own warp there */
  const uint8_t *lowest; /* byte of its stack */
  uint64_t stack_bytes;
  void *address_sanitizer, *thread_sanitizer;
};

/* `count` fibers of one thread; `base` is where the stacks begin, each with its guard below it. */
typedef struct tw_stacks {
  uint8_t *base;
  uint64_t stride;
  uint64_t stack_bytes;
  uint32_t count;
  tw_fiber *fibers;
} tw_stacks;

/* Prepares fibers that run `main`, which must not return, on stacks of at least `stack_bytes`.
 * 0 or a negative errno. */
int tw_stacks_open(tw_stacks *s, uint32_t count, uint64_t stack_bytes, void (*main)(tw_fiber *self));
void tw_stacks_close(tw_stacks *s);

/* The fiber whose stack, or whose guard (`in_guard`), has that address; NULL: none of them. */
const tw_fiber *tw_stacks_find(const tw_stacks *s, uint64_t address, bool *in_guard);

/* Makes `home` stand for the calling thread's own stack. */
void tw_fiber_adopt_thread(tw_fiber *home);

/* Parks `from`, which runs, and runs `to`. */
void tw_fiber_switch(tw_fiber *from, tw_fiber *to);
/* The first thing that a fiber's `main` does. */
void tw_fiber_entered(void);

/* Parks the fiber that `state` begins, and runs the next one. */
void tw_fiber_yield(tessera_thread_state *state);

/* Rings of fibers, named by one of them; NULL: nobody is on it. A fiber is on one ring at most. */

/* Puts `fiber` before the first one. */
static inline void tw_fiber_link(tw_fiber **ring, tw_fiber *fiber) {
  if (*ring == NULL) *ring = fiber->previous = fiber;
  tw_fiber *first = *ring, *last = first->previous;
  fiber->next = first;
  fiber->previous = last;
  last->next = fiber;
  first->previous = fiber;
}

/* Takes `fiber` off its ring. The one behind it, or NULL. */
static inline tw_fiber *tw_fiber_unlink(tw_fiber *fiber) {
  tw_fiber *next = fiber->next;
  if (next == fiber) return NULL;
  next->previous = fiber->previous;
  fiber->previous->next = next;
  return next;
}

/* Puts all of another ring before the first one. */
static inline void tw_fiber_join(tw_fiber **ring, tw_fiber *others) {
  if (others == NULL) return;
  if (*ring == NULL) {
    *ring = others;
    return;
  }
  tw_fiber *last = others->previous, *before = (*ring)->previous;
  before->next = others;
  others->previous = before;
  last->next = *ring;
  (*ring)->previous = last;
}

#endif
