/* Groups of calls: what is put off until the outermost group of the thread ends. */
#ifndef TSR_NCCL_GROUPS_H
#define TSR_NCCL_GROUPS_H

#include "operations.h"

/* Send or receive, at the end of the group or at once. */
ncclResult_t tsr_group_add_message(struct tsr_communicator *comm, const struct tsr_message *message);

/* Connect a new communicator, at the end of the group, beside others, or at once. */
ncclResult_t tsr_group_add_join(struct tsr_communicator *comm, const ncclUniqueId *id);

#endif
