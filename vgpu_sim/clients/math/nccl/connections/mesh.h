/* The connections of one rank of a communicator to all others, and transfers on them. */
#ifndef TSR_NCCL_MESH_H
#define TSR_NCCL_MESH_H

#include <stdbool.h>
#include <stddef.h>

#include "connections/channel.h"
#include "connections/sha256.h"
#include "nccl_types.h"

struct tsr_mesh {
  int rank, ranks;
  struct tsr_channel *channels; /* by rank; that of this rank itself is not connected */
  volatile bool aborted;
  uint8_t split_key[TSR_SHA256_BYTES]; /* from which secrets of communicators that are split off are derived */
};

/* Bytes for a peer, or from one. Those for the same peer are transferred in order. */
struct tsr_piece {
  int peer;
  void *bytes;
  size_t size;
  const void *expected; /* where not NULL, received bytes must equal these */
};

/* Make room for the channels; false: no memory. */
bool tsr_mesh_prepare(struct tsr_mesh *mesh);

/* Send `out` and receive `in`, all at the same time. Returns ncclSuccess; ncclRemoteError if a peer has closed
 * its connection or what it sent has a wrong tag, or this communicator is aborted; ncclInvalidUsage if bytes are not as
 * expected, with their sender in `*culprit`. */
ncclResult_t tsr_mesh_transfer(struct tsr_mesh *mesh, const struct tsr_piece *out, size_t outs,
                               const struct tsr_piece *in, size_t ins, const struct tsr_piece **culprit);

/* Return a peer from which a message with a wrong tag has come, or -1. */
int tsr_mesh_forged_peer(const struct tsr_mesh *mesh);

/* Send nothing more: the peers' transfers end after what was sent. */
void tsr_mesh_give_up(struct tsr_mesh *mesh);

/* Make transfers end, those of other threads included. */
void tsr_mesh_abort(struct tsr_mesh *mesh);

void tsr_mesh_close(struct tsr_mesh *mesh);

#endif
