#define _GNU_SOURCE
#include "blocks/room.h"

#include <sched.h>
#include <time.h>

#include "base/internal.h"
#include "base/platform.h"

enum { BUSY_ROUNDS = 8 };
static const uint64_t YIELDING_NS = 2000000;
static const uint64_t NAP_NS = 50000;

bool tw_room_take(tw_launch *launch) {
  uint32_t room = __atomic_load_n(&launch->room, __ATOMIC_RELAXED);
  while (room != 0)
    if (__atomic_compare_exchange_n(&launch->room, &room, room - 1, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return true;
  return false;
}

void tw_room_give(tw_launch *launch) {
  __atomic_add_fetch(&launch->room, 1, __ATOMIC_RELAXED);
}

void tw_room_wait(uint32_t rounds, uint64_t *since_ns) {
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
