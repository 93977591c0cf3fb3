/* Finds the connected peer of a queue pair. */
#include <string.h>

#include "requests/work.h"

bool hca_has_gid(const struct hca_client *client, const uint8_t *gid) {
  for (unsigned i = 0; i < TESSERA_HCA_GIDS; i++)
    if (memcmp(client->gids[i], gid, sizeof client->gids[i]) == 0) return true;
  return false;
}

static uint16_t pkey_of(const struct hca_qp *qp) {
  return qp->client->pkeys[qp->attributes.pkey_index % TESSERA_HCA_PKEYS];
}

/* InfiniBand Architecture Specification volume 1, "Partition Keys". */
bool hca_same_partition(const struct hca_qp *one, const struct hca_qp *other) {
  const uint16_t first = pkey_of(one), second = pkey_of(other);
  if ((first & 0x7fff) == 0 || ((first ^ second) & 0x7fff) != 0) return false;
  return ((first | second) & 0x8000) != 0;
}

bool hca_receives(const struct hca_qp *qp) {
  const uint32_t state = qp->attributes.state;
  if (qp->client->ended) return false;
  return state == TESSERA_VERBS_STATE_RTR || state == TESSERA_VERBS_STATE_RTS ||
         state == TESSERA_VERBS_STATE_SQD || state == TESSERA_VERBS_STATE_SQE;
}

struct hca_qp *hca_peer(struct hca *hca, const struct hca_qp *qp) {
  struct hca_qp *peer = hca_table_get(&hca->qps, qp->attributes.dest_qpn);
  if (!peer || peer->type != qp->type || peer->attributes.dest_qpn != qp->number) return NULL;
  if (!hca_receives(peer) || !hca_same_partition(qp, peer)) return NULL;
  if (peer->attributes.rq_psn != qp->attributes.sq_psn) return NULL;
  if (!hca_has_gid(peer->client, qp->attributes.dgid)) return NULL;
  return hca_has_gid(qp->client, peer->attributes.dgid) ? peer : NULL;
}
