/* How the ranks of a new communicator find each other. */
#ifndef TSR_NCCL_BOOTSTRAP_H
#define TSR_NCCL_BOOTSTRAP_H

#include <stdint.h>

#include "driver.h"
#include "connections/mesh.h"

/* Where a rank runs. */
struct tsr_place {
  uint8_t uuid[TSR_UUID_BYTES]; /* of its GPU */
  uint64_t host;
};

/* Begin to listen for ranks in the background, and fill in the id that leads them here. */
ncclResult_t tsr_bootstrap_begin(ncclUniqueId *id);

/* Connect a rank to all others of a communicator; `mesh->rank` and `mesh->ranks` are set. Waits until all
 * ranks have connected. */
ncclResult_t tsr_bootstrap_join(struct tsr_mesh *mesh, const ncclUniqueId *id, const struct tsr_place *place);

/* Return a number that identifies this host. */
uint64_t tsr_host_number(void);

#endif
