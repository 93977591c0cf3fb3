/* Who is at the other end. */
#include <string.h>

#include "work.h"

static bool has_gid(const struct hca_client *client, const uint8_t *gid) {
  for (unsigned i = 0; i < TESSERA_HCA_GIDS; i++)
    if (memcmp(client->gids[i], gid, sizeof client->gids[i]) == 0) return true;
  return false;
}

struct hca_qp *hca_peer(struct hca *hca, const struct hca_qp *qp) {
  struct hca_qp *peer = hca_table_get(&hca->qps, qp->attributes.dest_qpn);
  if (!peer || peer->attributes.dest_qpn != qp->number) return NULL;
  const uint32_t state = peer->attributes.state;
  if (state != TESSERA_VERBS_STATE_RTR && state != TESSERA_VERBS_STATE_RTS) return NULL;
  if (peer->attributes.rq_psn != qp->attributes.sq_psn) return NULL;
  if (!has_gid(peer->client, qp->attributes.dgid)) return NULL;
  return has_gid(qp->client, peer->attributes.dgid) ? peer : NULL;
}
