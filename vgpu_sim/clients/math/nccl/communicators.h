/* Communicators, which have one rank. */
#ifndef TSR_NCCL_COMMUNICATORS_H
#define TSR_NCCL_COMMUNICATORS_H

#include <stdbool.h>

#include "nccl_types.h"

struct tsr_communicator {
  int device;
  bool is_over; /* finalized */
};

/* Return the communicator that a handle names, or NULL. */
struct tsr_communicator *tsr_communicator_find(ncclComm_t comm);

#endif
