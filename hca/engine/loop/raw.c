/* Raw packet queue pairs: Ethernet frames between queue pairs of the same engine.
 *
 * The frames neither leave for a network nor arrive from one. Policy treats them as the verb UD
 * (see enforcement.py): an isolated pod neither sends nor receives them. */
#include "requests/work.h"

/* Deliver a frame to a queue pair that policy allows; it is dropped where it does not fit. */
static void deliver(struct hca *hca, const struct hca_qp *qp, struct hca_qp *peer,
                    const uint8_t *frame, uint32_t bytes) {
  if (peer == qp || peer->frame == hca->frames || !hca_receives(peer)) return;
  peer->frame = hca->frames;
  if (hca_take(hca, peer) != HCA_TAKEN) return;
  uint32_t status = TESSERA_VERBS_STATUS_SUCCESS;
  if (peer->held.sge_count > TESSERA_HCA_MAX_SGE)
    status = TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
  else if (hca_sum(peer->held.sges, peer->held.sge_count) < bytes)
    return; /* the receive request stays for a frame that fits */
  else if (!hca_scatter_datagram(hca, peer, frame, bytes))
    status = TESSERA_VERBS_STATUS_LOC_PROT_ERR;
  peer->holds = false;
  hca_finish(hca, peer, peer->recv_cq,
             (tessera_hca_cqe){.id = peer->held.id,
                               .status = status,
                               .opcode = TESSERA_VERBS_DONE_RECV,
                               .bytes = bytes},
             false);
  if (status != TESSERA_VERBS_STATUS_SUCCESS) hca_fail(hca, peer);
}

enum hca_step hca_carry_out_frame(struct hca *hca, struct hca_qp *qp) {
  enum { ETHERNET_BYTES = 14, GROUP = 1 /* bit of a MAC address's first byte */, RULE_COST = 64 };
  const uint32_t bytes = qp->work.bytes;
  const uint8_t *frame = hca->datagram + TESSERA_HCA_GRH_BYTES;
  tessera_hca_frame_fields fields;
  if (bytes < ETHERNET_BYTES) return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_LEN_ERR);
  if (!hca_gather_datagram(hca, qp))
    return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
  hca->frames++;
  bool matched = false;
  if (hca_read_frame(frame, bytes, &fields)) {
    for (const struct hca_steer *steer = hca->steers; steer; steer = steer->next) {
      if (matched && steer->wanted.priority >= TESSERA_HCA_STEER_DEFAULT) break;
      hca_charge(hca, RULE_COST);
      if (!hca_steers(steer, &fields)) continue;
      struct hca_qp *peer = hca_steer_target(steer, &fields);
      /* If the pod of a rule may not have the frame, other rules may still deliver it. */
      if (hca_evaluate(&qp->policy, &peer->policy, TESSERA_VERB_UD) != HCA_ALLOWED) continue;
      matched = true;
      hca_charge(hca, bytes + HCA_RECEIVER_COST);
      deliver(hca, qp, peer, frame, bytes);
      /* unicast: only the rule of the highest priority delivers */
      if (!(fields.destination_mac[0] & GROUP)) break;
    }
  }
  hca_end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
  return HCA_STEP_AGAIN;
}
