/* How many blocks of a kernel fit on a device at a time. */
#ifndef TSR_OCCUPANCY_H
#define TSR_OCCUPANCY_H

#include "base/objects.h"

/* Return how many blocks of `threads` threads, each with the given dynamic shared memory, fit on
 * one multiprocessor; 0: none. The caller holds the module lock or a ring's lock. */
uint32_t tsr_blocks_per_multiprocessor(const struct tsr_function *function, uint64_t threads,
                                       uint64_t dynamic_bytes);

/* The same for the whole device. */
uint64_t tsr_resident_blocks(const struct tsr_function *function, uint64_t threads,
                             uint64_t dynamic_bytes);

#endif
