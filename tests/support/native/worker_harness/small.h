/* Included before all sources of a program that tries all schedules: an instance of the protocol
 * that is small enough. Layouts stay as they are. */
#include "tessera_abi.h"

#undef TESSERA_MAX_STREAMS
#define TESSERA_MAX_STREAMS UINT64_C(2)
#undef TESSERA_SLOTS_PER_STREAM
#define TESSERA_SLOTS_PER_STREAM UINT64_C(2)
#undef TESSERA_MAX_TIMESTAMPS
#define TESSERA_MAX_TIMESTAMPS UINT64_C(2)
#undef TESSERA_MAX_PARAMETER_BYTES
#define TESSERA_MAX_PARAMETER_BYTES UINT64_C(256)
