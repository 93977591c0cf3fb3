/* UD requester: sends datagrams to a queue pair or to a multicast group, on this node or over a
 * wire. */
#include <string.h>

#include "wire/wire.h"
#include "requests/work.h"

bool hca_gather_datagram(struct hca *hca, struct hca_qp *qp) {
  struct hca_work *work = &qp->work;
  while (work->done < work->bytes) {
    uint64_t bytes = 0;
    const uint8_t *here = hca_local_memory(hca, qp, &bytes);
    if (!here) return false;
    if (!hca_copy(hca->datagram + TESSERA_HCA_GRH_BYTES + work->done, here, bytes)) return false;
    hca_charge(hca, bytes + HCA_PART_COST);
    work->done += (uint32_t)bytes;
    work->local.offset += (uint32_t)bytes;
  }
  return true;
}

/* Describe the datagram of the request that `qp` is executing. */
static struct hca_datagram datagram_of(const struct hca_qp *qp, const struct hca_ah *ah) {
  const tessera_hca_send_slot *send = &qp->work.send;
  /* A Q_Key with the highest bit set selects the queue pair's own Q_Key; unprivileged programs
   * cannot choose such a key themselves (IBTA volume 1, 10.2.5). */
  const uint32_t qkey = send->remote_key >> 31 ? qp->attributes.qkey : send->remote_key;
  return (struct hca_datagram){.bytes = qp->work.bytes,
                               .qkey = qkey,
                               .immediate = send->immediate,
                               .source_qpn = qp->number,
                               .service_level = ah->path.service_level,
                               .has_immediate = hca_has_immediate(send->opcode),
                               .solicited = send->flags & TESSERA_VERBS_SEND_SOLICITED};
}

static void deliver(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer,
                    const struct hca_ah *ah) {
  const struct hca_datagram datagram = datagram_of(qp, ah);
  if (hca_same_partition(qp, peer)) hca_deliver_datagram(hca, peer, &datagram);
}

static void deliver_to_group(struct hca *hca, struct hca_qp *qp, const struct hca_ah *ah) {
  const struct hca_member *member = NULL;
  while ((member = hca_next_member(hca, ah->path.dgid, member))) {
    if (member->qp == qp && qp->block_self) continue;
    hca_charge(hca, qp->work.bytes + HCA_RECEIVER_COST);
    if (hca_may_receive(hca, member, qp)) deliver(hca, qp, member->qp, ah);
  }
}

enum hca_step hca_carry_out_datagram(struct hca *hca, struct hca_qp *qp) {
  const tessera_hca_send_slot *send = &qp->work.send;
  const struct hca_ah *ah = hca_table_get(&hca->ahs, send->address_handle);
  if (!ah || ah->client != qp->client || ah->path.pd != qp->pd)
    return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_QP_OP_ERR);
  const enum hca_step admitted = hca_admit_datagram(hca, qp, ah);
  if (admitted != HCA_STEP_AGAIN) return admitted;
  if (!hca_gather_datagram(hca, qp)) return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
  const bool group = hca_is_group(ah->path.dgid);
  struct hca_wire *wire = hca_wire_towards(hca, qp->client, ah->path.sgid_index, ah->path.dgid);
  if (wire) {
    const struct hca_datagram datagram = datagram_of(qp, ah);
    const enum hca_step sent = hca_wire_send_datagram(hca, qp, wire, &ah->path, &datagram);
    if (sent != HCA_STEP_AGAIN) return sent;
  }
  /* Group members on this node receive from memory; copies that return over the wire are dropped as
   * duplicates. */
  if (group || !wire)
    hca_write_grh(hca->datagram, qp->client->gids[ah->path.sgid_index], &ah->path, qp->work.bytes);
  if (group) {
    deliver_to_group(hca, qp, ah);
  } else if (!wire) {
    hca_charge(hca, qp->work.bytes + HCA_RECEIVER_COST);
    struct hca_qp *peer = hca_table_get(&hca->qps, send->remote_qpn & TESSERA_HCA_QPN_MASK);
    if (peer && hca_has_gid(peer->client, ah->path.dgid)) deliver(hca, qp, peer, ah);
  }
  if (!qp->work.active) return HCA_STEP_FAILED; /* it was its own receiver, and failed as such */
  hca_end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
  return HCA_STEP_AGAIN;
}
