/* Turns of what a thread has started (rounds.c), while all wait until the last one has started: their
 * number is proportional to the number that waits, and none starts where they wait for no others. */
#include "blocks/rounds.h"

#include <stdio.h>

#include "blocks/room.h"

enum { ALL = 4096, MOST_ROUNDS_EACH = 20 };

static uint32_t started, running, patience_rounds;
static uint64_t turns;
static uint32_t room;

bool tw_room_take(tw_launch *launch) {
  (void)launch;
  return room != 0 && room--;
}

void tw_room_give(tw_launch *launch) {
  (void)launch;
  room++;
}

void tw_room_wait(uint32_t rounds, uint64_t *since_ns) { (void)rounds, (void)since_ns; }

bool tw_pool_claim(uint64_t *first, uint64_t *end) {
  if (*first == ALL) return false;
  *end = *first + 1;
  return true;
}

static uint32_t count(void) { return running; }

static void begin(tw_launch *launch, const uint8_t *parameters, uint64_t number) {
  (void)launch, (void)parameters;
  if (number != started) printf("number %lu starts out of order\n", (unsigned long)number);
  started++;
  running++;
}

/* Those that wait end when all have started; those that do not end after some rounds. */
static bool run(tw_launch *launch, bool back) {
  static uint32_t rounds;
  (void)back;
  turns += running;
  if (patience_rounds != 0 ? started < ALL : ++rounds % 100 != 0) return false;
  if (patience_rounds == 0 && running != 1) printf("%u run together\n", running);
  for (; running > 1; running--) tw_room_give(launch);
  running = 0;
  return true;
}

static void check(uint32_t patience) {
  static const uint8_t parameters[1];
  static tw_launch launch;
  const tw_rounds rounds = {.patience = patience, .count = count, .begin = begin, .run = run};
  patience_rounds = patience;
  room = ALL;
  turns = started = 0;
  tw_rounds_run(&rounds, &launch, parameters, 0, 2);
  if (patience == 0 ? started != 2 : started != ALL) printf("%u have started\n", started);
  if (patience != 0 && turns > (uint64_t)ALL * patience * MOST_ROUNDS_EACH)
    printf("%lu turns for %u that wait\n", (unsigned long)turns, ALL);
  if (room != ALL) printf("room is lost: %u\n", room);
}

int main(void) {
  check(2);
  check(32);
  check(0);
  puts("ok");
  return 0;
}
