/* Whether a launch keeps within the limits of its device and its kernel. */
#ifndef TSR_LAUNCH_CHECK_H
#define TSR_LAUNCH_CHECK_H

#include "modules/function.h"

struct tsr_geometry {
  const char *call; /* the API function, for messages */
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  bool cooperative; /* all blocks are resident together */
};

/* Each refusal is one line on stderr that names the call, the kernel, the value and the limit; a
 * program that tries one value after the other gets it once for each kernel and kind of limit. */
CUresult tsr_launch_check(struct tsr_function *function, const struct tsr_geometry *launch);

/* The same for what a kernel is given: an array of pointers, or `buffer` of `buffer_bytes`
 * (SIZE_MAX: there is none). */
CUresult tsr_launch_check_parameters(struct tsr_function *function, const char *call,
                                     void **parameters, const void *buffer, size_t buffer_bytes);

/* The same for arguments that contradict each other; `why` says what is wrong. */
CUresult tsr_launch_refuse_arguments(struct tsr_function *function, const char *call,
                                     const char *why);

#endif
