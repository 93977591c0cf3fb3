#ifndef TSR_NCCL_TYPES_H
#define TSR_NCCL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "library_types.h"

typedef int ncclResult_t;
typedef struct tsr_communicator *ncclComm_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

/* NCCL has no status for what is not supported. */
enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

/* The interface whose names the library exports. */
enum { TSR_NCCL_VERSION = 23007 };

#endif
