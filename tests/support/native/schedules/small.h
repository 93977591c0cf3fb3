/* Included before all sources of a program that tries all schedules or all programs: an instance
 * of the protocol that is small enough. Layouts stay as they are. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tessera_abi.h"

#ifndef SMALL_STREAMS
#define SMALL_STREAMS 2
#define SMALL_SLOTS 2
#endif

#undef TESSERA_MAX_STREAMS
#define TESSERA_MAX_STREAMS ((uint64_t)SMALL_STREAMS)
#undef TESSERA_SLOTS_PER_STREAM
#define TESSERA_SLOTS_PER_STREAM ((uint64_t)SMALL_SLOTS)
#undef TESSERA_MAX_TIMESTAMPS
#define TESSERA_MAX_TIMESTAMPS UINT64_C(2)
#undef TESSERA_MAX_PARAMETER_BYTES
#define TESSERA_MAX_PARAMETER_BYTES UINT64_C(256)
