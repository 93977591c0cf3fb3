#include "post.h"

#include <errno.h>
#include <string.h>

#include "command.h"
#include "verbs_calls.h"

tessera_hca_send_slot *tsr_send_slot(struct tsr_qp *qp, uint32_t head) {
  const uint32_t tail = __atomic_load_n(&qp->page->send_tail, __ATOMIC_ACQUIRE);
  return head - tail < qp->send_count ? &qp->send_slots[head & (qp->send_count - 1)] : NULL;
}

void tsr_send_publish(struct tsr_qp *qp, uint32_t head) {
  if (qp->send_head == head) return;
  qp->send_head = head;
  __atomic_store_n(&qp->page->send_head, head, __ATOMIC_RELEASE);
  tsr_ring(tsr_of(qp->ibv.context), qp->index);
}

int tsr_append_inline(tessera_hca_send_slot *slot, const void *data, size_t bytes) {
  if (bytes > TESSERA_HCA_MAX_INLINE_BYTES - slot->inline_bytes) return ENOMEM;
  memcpy(slot->payload.data + slot->inline_bytes, data, bytes);
  slot->inline_bytes += (uint32_t)bytes;
  return 0;
}

bool tsr_may_send(const struct tsr_qp *qp) {
  const int state = qp->ibv.state;
  return state == TESSERA_VERBS_STATE_RTS || state == TESSERA_VERBS_STATE_ERR;
}

static int fill_send(tessera_hca_send_slot *slot, const struct ibv_send_wr *wr) {
  if (wr->num_sge < 0 || wr->num_sge > (int)TESSERA_HCA_MAX_SGE) return EINVAL;
  if (wr->opcode < 0 || wr->opcode > TESSERA_VERBS_OPCODE_RDMA_READ) return EOPNOTSUPP;
  slot->id = wr->wr_id;
  slot->remote_address = wr->wr.rdma.remote_addr;
  slot->remote_key = wr->wr.rdma.rkey;
  slot->immediate = wr->imm_data;
  slot->opcode = (uint32_t)wr->opcode;
  slot->flags = wr->send_flags;
  slot->inline_bytes = 0;
  slot->sge_count = (uint32_t)wr->num_sge;
  if (wr->send_flags & TESSERA_VERBS_SEND_INLINE) {
    int error = 0;
    for (int i = 0; i < wr->num_sge && error == 0; i++)
      error = tsr_append_inline(slot, (const void *)(uintptr_t)wr->sg_list[i].addr,
                                wr->sg_list[i].length);
    return error;
  }
  for (int i = 0; i < wr->num_sge; i++)
    slot->payload.sges[i] = (tessera_hca_sge){
        .address = wr->sg_list[i].addr, .bytes = wr->sg_list[i].length, .lkey = wr->sg_list[i].lkey};
  return 0;
}

int tsr_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  struct tsr_qp *qp = (struct tsr_qp *)ibv;
  int error = 0;
  pthread_mutex_lock(&qp->sending);
  uint32_t head = qp->send_head;
  for (; wr; wr = wr->next) {
    tessera_hca_send_slot *slot = tsr_send_slot(qp, head);
    error = !tsr_may_send(qp) ? EINVAL : !slot ? ENOMEM : fill_send(slot, wr);
    if (error != 0) {
      *bad = wr;
      break;
    }
    head++;
  }
  tsr_send_publish(qp, head);
  pthread_mutex_unlock(&qp->sending);
  return error;
}

static int fill_recv(tessera_hca_recv_slot *slot, const struct ibv_recv_wr *wr) {
  if (wr->num_sge < 0 || wr->num_sge > (int)TESSERA_HCA_MAX_SGE) return EINVAL;
  slot->id = wr->wr_id;
  slot->sge_count = (uint32_t)wr->num_sge;
  for (int i = 0; i < wr->num_sge; i++)
    slot->sges[i] = (tessera_hca_sge){
        .address = wr->sg_list[i].addr, .bytes = wr->sg_list[i].length, .lkey = wr->sg_list[i].lkey};
  return 0;
}

int tsr_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  struct tsr_qp *qp = (struct tsr_qp *)ibv;
  int error = 0;
  pthread_mutex_lock(&qp->receiving);
  uint32_t head = qp->recv_head;
  for (; wr; wr = wr->next) {
    const uint32_t tail = __atomic_load_n(&qp->page->recv_tail, __ATOMIC_ACQUIRE);
    if (ibv->state == TESSERA_VERBS_STATE_RESET)
      error = EINVAL;
    else if (head - tail >= qp->recv_count)
      error = ENOMEM;
    else
      error = fill_recv(&qp->recv_slots[head & (qp->recv_count - 1)], wr);
    if (error != 0) {
      *bad = wr;
      break;
    }
    head++;
  }
  if (head != qp->recv_head) {
    qp->recv_head = head;
    __atomic_store_n(&qp->page->recv_head, head, __ATOMIC_RELEASE);
    tsr_ring(tsr_of(ibv->context), qp->index);
  }
  pthread_mutex_unlock(&qp->receiving);
  return error;
}
