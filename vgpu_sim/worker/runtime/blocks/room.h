/* Room on the device for blocks that start while others only wait, and what to do without room. */
#ifndef TESSERA_WORKER_ROOM_H
#define TESSERA_WORKER_ROOM_H

#include "blocks/cta.h"

/* Reserve room for one more block, or cluster, across all threads; false: there is none. */
bool tw_room_take(tw_launch *launch);
void tw_room_give(tw_launch *launch);
/* Let other threads run after `rounds` rounds without progress. `since_ns` is the caller's. */
void tw_room_wait(uint32_t rounds, uint64_t *since_ns);

#endif
