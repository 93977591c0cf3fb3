/* Checks of a launch against the limits of its device and kernel. */
#ifndef TSR_LAUNCH_CHECK_H
#define TSR_LAUNCH_CHECK_H

#include "modules/cluster.h"
#include "modules/function.h"

struct tsr_geometry {
  const char *call; /* the API function, for messages */
  uint32_t grid[3], block[3];
  uint32_t cluster[3]; /* zeros: the launch states none */
  uint32_t shared_bytes;
  uint32_t multiprocessors; /* of a green context; 0: all */
  bool cooperative; /* all blocks must be resident together */
};

/* If the grid that launches of the function state is a number of clusters (.blocksareclusters), set
 * `whole` to the launch with all blocks, and with the kernel's size of blocks if the launch states 1, and
 * return true. Numbers that do not fit 32 bits become the largest, which no check accepts. */
bool tsr_launch_expand(const struct tsr_function *function, const struct tsr_geometry *launch,
                       struct tsr_geometry *whole);

/* Check a launch. Each refusal logs one line that names the call, the kernel, the value and the
 * limit, but only once for each kernel and kind of limit. `cluster` gets the size of the clusters. */
CUresult tsr_launch_check(struct tsr_function *function, const struct tsr_geometry *launch,
                          struct tsr_cluster *cluster);

/* The same for the parameters, which are in an array of pointers or in `buffer` of
 * `buffer_bytes` (SIZE_MAX: none). */
CUresult tsr_launch_check_parameters(struct tsr_function *function, const char *call,
                                     void **parameters, const void *buffer, size_t buffer_bytes);

/* Refuse contradictory arguments in the same way; `why` describes the error. */
CUresult tsr_launch_refuse_arguments(struct tsr_function *function, const char *call,
                                     const char *why);

#endif
