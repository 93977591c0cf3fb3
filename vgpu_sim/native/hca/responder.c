/* The responder: what a request may do to it, and the memory that it gives. */
#include "work.h"

static uint32_t remote_access(uint32_t opcode) {
  return hca_is_read(opcode) ? TESSERA_VERBS_ACCESS_REMOTE_READ : TESSERA_VERBS_ACCESS_REMOTE_WRITE;
}

bool hca_remote_valid(struct hca *hca, const struct hca_qp *peer, const struct hca_work *work) {
  const tessera_hca_send_slot *send = &work->send;
  const uint32_t access = remote_access(send->opcode);
  if ((peer->attributes.access & access) == 0) return false;
  if (work->bytes == 0) return true;
  return hca_region_of(hca, peer, send->remote_key, send->remote_address, work->bytes, access);
}

/* Takes a copy of the peer's next receive request, and checks it. */
enum hca_step hca_take_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  struct hca_work *work = &qp->work;
  if (hca_pending(hca, peer, &peer->page->recv_head, peer->recv_tail, peer->recv_count) == 0)
    return peer->broken ? hca_wait_for_peer(hca, qp) : hca_wait_for_receive(hca, qp, peer);
  work->recv = peer->recv_slots[peer->recv_tail & (peer->recv_count - 1)];
  work->receives = true;
  tessera_hca_recv_slot *recv = &work->recv;
  if (recv->sge_count > TESSERA_HCA_MAX_SGE)
    return hca_refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_QP_OP_ERR,
                          TESSERA_VERBS_STATUS_REM_OP_ERR);
  if (!hca_is_send(work->send.opcode)) return HCA_STEP_AGAIN; /* the immediate needs no memory */
  if (hca_sum(recv->sges, recv->sge_count) < work->bytes)
    return hca_refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_LEN_ERR,
                          TESSERA_VERBS_STATUS_REM_INV_REQ_ERR);
  if (!hca_all_valid(hca, peer, recv->sges, recv->sge_count, TESSERA_VERBS_ACCESS_LOCAL_WRITE))
    return hca_refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_PROT_ERR,
                          TESSERA_VERBS_STATUS_REM_OP_ERR);
  work->remote = (struct hca_cursor){recv->sges, recv->sge_count, 0, 0};
  return HCA_STEP_AGAIN;
}

uint8_t *hca_remote_memory(struct hca *hca, struct hca_qp *peer, struct hca_work *work,
                              uint64_t *bytes) {
  const tessera_hca_send_slot *send = &work->send;
  if (hca_is_send(send->opcode))
    return hca_under(hca, peer, &work->remote, TESSERA_VERBS_ACCESS_LOCAL_WRITE, bytes);
  const uint64_t address = send->remote_address + work->done;
  const uint32_t left = work->bytes - work->done;
  const struct hca_region *region =
      hca_region_of(hca, peer, send->remote_key, address, left, remote_access(send->opcode));
  if (!region) return NULL;
  uint8_t *memory = hca_region_at(region, address, bytes);
  if (*bytes > left) *bytes = left;
  return memory;
}

/* The responder's memory went away under a request that had been accepted. */
enum hca_step hca_lose_remote(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  if (hca_is_send(qp->work.send.opcode))
    return hca_refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_PROT_ERR,
                          TESSERA_VERBS_STATUS_REM_OP_ERR);
  return hca_refuse(hca, qp, peer, TESSERA_VERBS_EVENT_QP_ACCESS_ERR,
                TESSERA_VERBS_STATUS_REM_ACCESS_ERR);
}
