/* What the requester alone is to blame for: its request and its own memory. */
#include "work.h"

/* Checks what the requester alone is to blame for. */
uint32_t hca_check_local(struct hca *hca, struct hca_qp *qp) {
  struct hca_work *work = &qp->work;
  tessera_hca_send_slot *send = &work->send;
  if (send->opcode > TESSERA_VERBS_OPCODE_RDMA_READ) return TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
  uint64_t bytes;
  if (send->flags & TESSERA_VERBS_SEND_INLINE) {
    if (hca_is_read(send->opcode)) return TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
    bytes = send->inline_bytes;
    if (bytes > TESSERA_HCA_MAX_INLINE_BYTES) return TESSERA_VERBS_STATUS_LOC_LEN_ERR;
    send->sge_count = 0;
  } else {
    if (send->sge_count > TESSERA_HCA_MAX_SGE) return TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
    bytes = hca_sum(send->payload.sges, send->sge_count);
    if (bytes > TESSERA_HCA_MAX_MESSAGE_BYTES) return TESSERA_VERBS_STATUS_LOC_LEN_ERR;
    const uint32_t access = hca_is_read(send->opcode) ? TESSERA_VERBS_ACCESS_LOCAL_WRITE : 0;
    if (!hca_all_valid(hca, qp, send->payload.sges, send->sge_count, access))
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
  const uint32_t access =
      hca_is_read(work->send.opcode) ? TESSERA_VERBS_ACCESS_LOCAL_WRITE : 0;
  return hca_under(hca, qp, &work->local, access, bytes);
}
