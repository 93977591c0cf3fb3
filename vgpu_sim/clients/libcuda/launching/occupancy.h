/* How many blocks of a kernel a device has room for at a time. */
#ifndef TSR_OCCUPANCY_H
#define TSR_OCCUPANCY_H

#include "base/objects.h"

/* Blocks of so many threads, each with so much dynamic shared memory, on one multiprocessor; 0: no
 * block has room. Under the module lock or a ring's. */
uint32_t tsr_blocks_per_multiprocessor(const struct tsr_function *function, uint64_t threads,
                                       uint64_t dynamic_bytes);

/* The same on the whole device. */
uint64_t tsr_resident_blocks(const struct tsr_function *function, uint64_t threads,
                             uint64_t dynamic_bytes);

#endif
