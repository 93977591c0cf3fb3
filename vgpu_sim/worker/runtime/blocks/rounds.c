/* If all that a thread has started only waits, the thread starts more, for which it may be
 * waiting, as long as the device has room; without room it yields to other threads. They start in
 * the order of their numbers.
 *
 * Only an end counts as progress. A barrier that completes does not, because a loop that polls may
 * contain one. The number that starts at once grows with the number that waits, so that the turns
 * until n have started are proportional to n. */
#include "blocks/rounds.h"

#include "blocks/room.h"

enum { SHARE_STARTED = 16 };

/* What the calling thread has claimed and not started; NULL: it runs no rounds. */
static __thread struct {
  uint64_t *first, *end;
} mine;

bool tw_rounds_cancel(uint64_t *number) {
  if (mine.first == NULL) return false;
  if (*mine.first == *mine.end && !tw_pool_claim(mine.first, mine.end)) return false;
  *number = (*mine.first)++;
  return true;
}

/* Start more, while all others wait; returns whether there were any, and room for them. */
static bool start_more(const tw_rounds *rounds, tw_launch *launch, const uint8_t *parameters,
                       uint64_t *first, uint64_t *end) {
  const uint32_t wanted = 1 + rounds->count() / SHARE_STARTED;
  uint32_t started = 0;
  while (started < wanted && tw_room_take(launch)) {
    if (*first == *end && !tw_pool_claim(first, end)) {
      tw_room_give(launch);
      break;
    }
    rounds->begin(launch, parameters, (*first)++);
    started++;
  }
  return started != 0;
}

void tw_rounds_run(const tw_rounds *rounds, tw_launch *launch, const uint8_t *parameters,
                   uint64_t first, uint64_t end) {
  uint64_t since_ns = 0;
  uint32_t idle = 0; /* rounds in which none ended or started */
  bool back = false;
  mine.first = &first;
  mine.end = &end;
  for (;;) {
    if (rounds->count() == 0) {
      if (first == end) break;
      rounds->begin(launch, parameters, first++);
      idle = 0;
    }
    /* Because the direction alternates, a block that waits for a neighbour, on either side, finds
     * it done by the next round. */
    if (rounds->run(launch, back)) {
      idle = 0;
      continue;
    }
    back = !back;
    if (rounds->patience == 0 || ++idle < rounds->patience) continue;
    if (start_more(rounds, launch, parameters, &first, &end)) {
      idle = 0;
      back = true;
    } else {
      tw_room_wait(idle - rounds->patience, &since_ns);
    }
  }
  mine.first = mine.end = NULL;
}
