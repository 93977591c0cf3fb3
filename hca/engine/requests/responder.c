/* The responder: the requests that it permits, and the memory that it provides. */
#include "requests/work.h"

static uint32_t remote_access(uint32_t opcode) {
  if (hca_is_atomic(opcode)) return TESSERA_VERBS_ACCESS_REMOTE_ATOMIC;
  return hca_is_read(opcode) ? TESSERA_VERBS_ACCESS_REMOTE_READ : TESSERA_VERBS_ACCESS_REMOTE_WRITE;
}

static enum hca_step refuse_access(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  return hca_refuse(hca, qp, peer, TESSERA_VERBS_EVENT_QP_ACCESS_ERR,
                    TESSERA_VERBS_STATUS_REM_ACCESS_ERR);
}

static enum hca_step refuse_request(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  return hca_refuse(hca, qp, peer, TESSERA_VERBS_EVENT_QP_REQ_ERR,
                    TESSERA_VERBS_STATUS_REM_INV_REQ_ERR);
}

/* Find the region for the rest of a request; `*address` receives the address in the region. */
static const struct hca_region *region_of(struct hca *hca, const struct hca_qp *peer,
                                          const struct hca_work *work, uint64_t *address) {
  const tessera_hca_send_slot *send = &work->send;
  *address = send->remote_address + work->done;
  return hca_reach(hca, peer, send->remote_key, address, work->bytes - work->done,
                   remote_access(send->opcode));
}

enum hca_step hca_check_remote(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  const struct hca_work *work = &qp->work;
  const uint32_t opcode = work->send.opcode;
  if (hca_invalidates(opcode) && !hca_may_invalidate(hca, peer, work->send.immediate))
    return refuse_access(hca, qp, peer);
  if (hca_is_send(opcode)) return HCA_STEP_AGAIN;
  if (hca_is_answered(opcode) && peer->attributes.max_dest_rd_atomic == 0)
    return refuse_request(hca, qp, peer);
  if ((peer->attributes.access & remote_access(opcode)) == 0) return refuse_access(hca, qp, peer);
  uint64_t address;
  if (work->bytes != 0 && !region_of(hca, peer, work, &address))
    return refuse_access(hca, qp, peer);
  return HCA_STEP_AGAIN;
}

enum hca_step hca_carry_out_atomic(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  struct hca_work *work = &qp->work;
  const tessera_hca_send_slot *send = &work->send;
  uint64_t address, contiguous = 0;
  const struct hca_region *region = region_of(hca, peer, work, &address);
  uint8_t *at = region ? hca_region_at(region, address, &contiguous) : NULL;
  if (!at) return refuse_access(hca, qp, peer);
  if (send->remote_address % sizeof(uint64_t) != 0 || (uintptr_t)at % sizeof(uint64_t) != 0 ||
      contiguous < sizeof(uint64_t))
    return refuse_request(hca, qp, peer);
  uint64_t before;
  if (hca_is_atomic_write(send->opcode)) {
    if (!hca_store((uint64_t *)(void *)at, send->compare_add)) return refuse_access(hca, qp, peer);
    work->done = work->bytes; /* no data is returned */
    return HCA_STEP_DONE;
  }
  if (!hca_atomic((uint64_t *)(void *)at, send->opcode, send->compare_add, send->swap, &before))
    return refuse_access(hca, qp, peer);
  while (work->done < work->bytes) {
    uint64_t bytes = 0;
    uint8_t *here = hca_local_memory(hca, qp, &bytes);
    if (!here || !hca_copy(here, (const uint8_t *)&before + work->done, bytes))
      return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
    work->done += (uint32_t)bytes;
    work->local.offset += (uint32_t)bytes;
  }
  return HCA_STEP_DONE;
}

enum hca_step hca_take_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  struct hca_work *work = &qp->work;
  switch (hca_take(hca, peer)) {
    case HCA_TAKEN_NONE:
      return hca_wait_for_receive(hca, qp, peer);
    case HCA_TAKEN_BROKEN:
      return hca_wait_for_peer(hca, qp);
    case HCA_TAKEN:
      break;
  }
  work->recv = peer->held;
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
  if (hca_is_send(work->send.opcode))
    return hca_under(hca, peer, &work->remote, TESSERA_VERBS_ACCESS_LOCAL_WRITE, bytes);
  uint64_t address;
  const struct hca_region *region = region_of(hca, peer, work, &address);
  if (!region) return NULL;
  uint8_t *memory = hca_region_at(region, address, bytes);
  const uint32_t left = work->bytes - work->done;
  if (*bytes > left) *bytes = left;
  return memory;
}

enum hca_step hca_lose_remote(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  if (hca_is_send(qp->work.send.opcode))
    return hca_refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_PROT_ERR,
                              TESSERA_VERBS_STATUS_REM_OP_ERR);
  return refuse_access(hca, qp, peer);
}
