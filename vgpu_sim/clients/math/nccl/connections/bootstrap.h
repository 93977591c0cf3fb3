/* How the ranks of a new communicator find each other. */
#ifndef TSR_NCCL_BOOTSTRAP_H
#define TSR_NCCL_BOOTSTRAP_H

#include <stdint.h>

#include "connections/handshake.h"
#include "connections/mesh.h"

/* Begin to listen for ranks in the background, and fill in the id that leads them here. The ids of communicators that
 * are split off `parent`, which is NULL for others, are sent between ranks: they have a random number instead of a
 * secret. */
ncclResult_t tsr_bootstrap_begin(ncclUniqueId *id, const struct tsr_mesh *parent);

/* Make the root of an id stop to listen, and close the connections of ranks that have come. Does nothing if it has ended. */
void tsr_bootstrap_end(const ncclUniqueId *id);

/* Put the secret of a communicator that is split off into its id. */
void tsr_bootstrap_reveal(ncclUniqueId *id, const struct tsr_mesh *parent);

/* Connect a rank to all others of a communicator; `mesh->rank` and `mesh->ranks` are set. Waits until all
 * ranks have connected. */
ncclResult_t tsr_bootstrap_join(struct tsr_mesh *mesh, const ncclUniqueId *id, const struct tsr_place *place);

/* Return a number that identifies this host. */
uint64_t tsr_host_number(void);

#endif
