/* Rounds over the blocks, or clusters, that a thread of the pool has started and not finished. */
#ifndef TESSERA_WORKER_ROUNDS_H
#define TESSERA_WORKER_ROUNDS_H

#include "blocks/cta.h"

/* What a thread starts: blocks (residents.c) or clusters (clusters.c). */
typedef struct tw_rounds {
  /* Rounds in which none ends before others are started, for which they may wait; 0: they wait for
   * no others. */
  uint32_t patience;
  uint32_t (*count)(void); /* started and not ended */
  /* Start one, by its number in the launch. Does not return if memory is lacking. */
  void (*begin)(tw_launch *launch, const uint8_t *parameters, uint64_t number);
  /* Run each once, the last one first if `back` is set. Returns whether a block has ended. */
  bool (*run)(tw_launch *launch, bool back);
} tw_rounds;

/* Take the number of something that the calling thread's launch has not started, and that never
 * starts then; false: all has started. Only what `run` executes may call it. */
bool tw_rounds_cancel(uint64_t *number);

/* Run those with the numbers `first` to `end`, and those for which they wait. */
void tw_rounds_run(const tw_rounds *rounds, tw_launch *launch, const uint8_t *parameters,
                   uint64_t first, uint64_t end);

#endif
