/* Checks for which the requester alone is responsible: its request and its own memory. */
#include "requests/work.h"

/* Return the operations that a queue pair's type supports. */
static uint64_t operations_of(const struct hca_qp *qp) {
  switch (qp->type) {
    case TESSERA_VERBS_QP_TYPE_RC:
      return TESSERA_OPERATIONS_OF_RC;
    case TESSERA_VERBS_QP_TYPE_UC:
      return TESSERA_OPERATIONS_OF_UC;
    case TESSERA_VERBS_QP_TYPE_RAW_PACKET:
      return TESSERA_OPERATIONS_OF_RAW_PACKET;
    default:
      return TESSERA_OPERATIONS_OF_UD;
  }
}

static bool is_possible(const struct hca_qp *qp, const tessera_hca_send_slot *send) {
  const uint32_t opcode = send->opcode;
  if (!tessera_is_one_of(operations_of(qp), opcode)) return false;
  const uint64_t wired = TESSERA_OPERATIONS_WIRED_RC | TESSERA_OPERATIONS_OWN;
  if (qp->wired && !tessera_is_one_of(wired, opcode)) return false; /* no packets exist for it */
  if (send->flags & TESSERA_VERBS_SEND_INLINE &&
      !tessera_is_one_of(TESSERA_OPERATIONS_INLINE, opcode))
    return false;
  return !hca_is_answered(opcode) || qp->attributes.max_rd_atomic != 0;
}

static uint64_t longest(const struct hca_qp *qp) {
  switch (qp->type) {
    case TESSERA_VERBS_QP_TYPE_UD:
      return TESSERA_HCA_MAX_DATAGRAM_BYTES;
    case TESSERA_VERBS_QP_TYPE_RAW_PACKET:
      return TESSERA_HCA_MAX_FRAME_BYTES;
    default:
      return TESSERA_HCA_MAX_MESSAGE_BYTES;
  }
}

uint32_t hca_check_local(struct hca *hca, struct hca_qp *qp) {
  struct hca_work *work = &qp->work;
  tessera_hca_send_slot *send = &work->send;
  if (!is_possible(qp, send)) return TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
  uint64_t bytes;
  if (hca_is_own(send->opcode)) {
    bytes = send->sge_count = 0;
  } else if (hca_is_atomic_write(send->opcode)) {
    bytes = sizeof send->compare_add;
    send->sge_count = 0;
  } else if (send->flags & TESSERA_VERBS_SEND_INLINE) {
    bytes = send->inline_bytes;
    if (bytes > TESSERA_HCA_MAX_INLINE_BYTES) return TESSERA_VERBS_STATUS_LOC_LEN_ERR;
    send->sge_count = 0;
  } else {
    if (send->sge_count > TESSERA_HCA_MAX_SGE) return TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
    bytes = hca_sum(send->payload.sges, send->sge_count);
    if (bytes > longest(qp)) return TESSERA_VERBS_STATUS_LOC_LEN_ERR;
    if (hca_is_atomic(send->opcode) && bytes != sizeof(uint64_t))
      return TESSERA_VERBS_STATUS_LOC_LEN_ERR;
    if (!hca_all_valid(hca, qp, send->payload.sges, send->sge_count,
                       hca_local_access(send->opcode)))
      return TESSERA_VERBS_STATUS_LOC_PROT_ERR;
  }
  work->bytes = (uint32_t)bytes;
  work->local = (struct hca_cursor){send->payload.sges, send->sge_count, 0, 0};
  return TESSERA_VERBS_STATUS_SUCCESS;
}

uint8_t *hca_local_memory(struct hca *hca, struct hca_qp *qp, uint64_t *bytes) {
  struct hca_work *work = &qp->work;
  if (work->send.flags & TESSERA_VERBS_SEND_INLINE) {
    *bytes = work->bytes - work->done;
    return work->send.payload.data + work->done;
  }
  return hca_under(hca, qp, &work->local, hca_local_access(work->send.opcode), bytes);
}

uint32_t hca_carry_out_own(struct hca *hca, struct hca_qp *qp) {
  const tessera_hca_send_slot *send = &qp->work.send;
  if (send->opcode == TESSERA_VERBS_OPCODE_BIND_MW) return hca_bind(hca, qp, send);
  if (!hca_may_invalidate(hca, qp, send->immediate)) return TESSERA_VERBS_STATUS_MW_BIND_ERR;
  hca_invalidate(hca, send->immediate);
  return TESSERA_VERBS_STATUS_SUCCESS;
}
