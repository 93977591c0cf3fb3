/* Fibers: each runs one group of lanes of a block, on its own stack.
 *
 * A switch is a dozen user-mode instructions: no system call, no signal mask, no floating-point
 * environment. A fiber never moves to another thread. */
#ifndef TESSERA_WORKER_FIBER_H
#define TESSERA_WORKER_FIBER_H

#include <stdbool.h>

#include "tessera_abi.h"

typedef struct tw_cta tw_cta;
typedef struct tw_fiber tw_fiber;

/* fiber.c asserts the offsets that the switch uses. */
struct tw_fiber {
  tessera_thread_state state; /* first, because the group's code gets a pointer to it */
  void *sp;                   /* stack pointer while the fiber is parked */
  tw_fiber *next;             /* the next fiber of the ring */
  tw_fiber *previous;         /* set on rings from which fibers are removed */
  tw_cta *cta;
  uint32_t group;
  uint64_t arrived; /* 1 + number of the phase of the cluster's barrier at which it has arrived; 0: none */
  bool waits; /* it waits for a barrier; false: it waits there only for the rest of its warp */
  const uint8_t *lowest; /* lowest byte of its stack */
  uint64_t stack_bytes;
  void *address_sanitizer, *thread_sanitizer;
};

/* The `count` fibers of one thread. `base` is the start of the stacks; below each stack is a
 * guard page. */
typedef struct tw_stacks {
  uint8_t *base;
  uint64_t stride;
  uint64_t stack_bytes;
  uint32_t count;
  tw_fiber *fibers;
} tw_stacks;

/* Prepare fibers that run `main`, which must not return, on stacks of at least `stack_bytes`.
 * Returns 0 or a negative errno. */
int tw_stacks_open(tw_stacks *s, uint32_t count, uint64_t stack_bytes, void (*main)(tw_fiber *self));
void tw_stacks_close(tw_stacks *s);

/* Find the fiber whose stack, or guard page (`in_guard`), contains an address; NULL: none. */
const tw_fiber *tw_stacks_find(const tw_stacks *s, uint64_t address, bool *in_guard);

/* Make `home` represent the calling thread's own stack. */
void tw_fiber_adopt_thread(tw_fiber *home);

/* Park `from`, which is running, and run `to`. */
void tw_fiber_switch(tw_fiber *from, tw_fiber *to);
/* Complete a switch: a fiber's `main` must call this first. */
void tw_fiber_entered(void);

/* Park the fiber whose first member is `state`, and run the next one. */
void tw_fiber_yield(tessera_thread_state *state);

/* Rings of fibers. A pointer to a ring points to its first fiber; NULL: the ring is empty. A
 * fiber is on at most one ring. */

/* Insert `fiber` before the ring's first fiber. */
static inline void tw_fiber_link(tw_fiber **ring, tw_fiber *fiber) {
  if (*ring == NULL) *ring = fiber->previous = fiber;
  tw_fiber *first = *ring, *last = first->previous;
  fiber->next = first;
  fiber->previous = last;
  last->next = fiber;
  first->previous = fiber;
}

/* Remove `fiber` from its ring. Returns the next one, or NULL. */
static inline tw_fiber *tw_fiber_unlink(tw_fiber *fiber) {
  tw_fiber *next = fiber->next;
  if (next == fiber) return NULL;
  next->previous = fiber->previous;
  fiber->previous->next = next;
  return next;
}

/* Insert all fibers of another ring before this ring's first fiber. */
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
