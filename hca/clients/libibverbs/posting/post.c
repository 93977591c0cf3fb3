#include "posting/post.h"

#include <errno.h>
#include <string.h>

#include "command/command.h"
#include "memory/implicit.h"
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

int tsr_fill_sges(struct tsr_context *context, tessera_hca_sge *sges, const struct ibv_sge *list,
                  size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint32_t key = list[i].lkey;
    const int error = tsr_implicit_reach(context, list[i].addr, list[i].length, &key);
    if (error != 0) return error;
    sges[i] = (tessera_hca_sge){.address = list[i].addr, .bytes = list[i].length, .lkey = key};
  }
  return 0;
}

bool tsr_may_send(const struct tsr_qp *qp) { return qp->ibv.state >= TESSERA_VERBS_STATE_RTS; }

void tsr_fill_bind(tessera_hca_send_slot *slot, const struct ibv_mw *mw, uint32_t key,
                   const struct ibv_mw_bind_info *info) {
  slot->opcode = TESSERA_VERBS_OPCODE_BIND_MW;
  slot->remote_key = mw->rkey;
  slot->immediate = key;
  slot->remote_address = info->addr;
  slot->compare_add = info->length;
  slot->swap = info->mw_access_flags;
  slot->payload.sges[0] = (tessera_hca_sge){.lkey = info->mr ? info->mr->lkey : 0};
}

/* Fill in what an opcode needs besides data. */
static int fill_operation(const struct tsr_qp *qp, tessera_hca_send_slot *slot,
                          const struct ibv_send_wr *wr) {
  if (qp->ibv.qp_type == TESSERA_VERBS_QP_TYPE_UD) {
    if (!wr->wr.ud.ah) return EINVAL;
    slot->address_handle = wr->wr.ud.ah->handle;
    slot->remote_qpn = wr->wr.ud.remote_qpn;
    slot->remote_key = wr->wr.ud.remote_qkey;
    return 0;
  }
  if (wr->opcode == TESSERA_VERBS_OPCODE_BIND_MW) {
    if (!wr->bind_mw.mw || wr->bind_mw.mw->type != TESSERA_VERBS_MW_TYPE_TYPE_2) return EINVAL;
    tsr_fill_bind(slot, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
  } else if (tessera_is_one_of(TESSERA_OPERATIONS_ATOMIC, (uint32_t)wr->opcode)) {
    slot->remote_address = wr->wr.atomic.remote_addr;
    slot->remote_key = wr->wr.atomic.rkey;
    slot->compare_add = wr->wr.atomic.compare_add;
    slot->swap = wr->wr.atomic.swap;
  } else {
    slot->remote_address = wr->wr.rdma.remote_addr;
    slot->remote_key = wr->wr.rdma.rkey;
  }
  return 0;
}

static int fill_send(const struct tsr_qp *qp, tessera_hca_send_slot *slot,
                     const struct ibv_send_wr *wr) {
  if (wr->num_sge < 0 || wr->num_sge > (int)TESSERA_HCA_MAX_SGE) return EINVAL;
  const uint32_t opcode = (uint32_t)wr->opcode;
  if (!tessera_is_one_of(TESSERA_OPERATIONS_BY_POST_SEND, opcode)) return EOPNOTSUPP;
  slot->id = wr->wr_id;
  slot->immediate = wr->imm_data;
  slot->opcode = opcode;
  slot->flags = wr->send_flags;
  slot->inline_bytes = 0;
  const int wrong = fill_operation(qp, slot, wr);
  if (wrong) return wrong;
  const bool bare = tessera_is_one_of(TESSERA_OPERATIONS_OWN, opcode);
  slot->sge_count = bare ? 0 : (uint32_t)wr->num_sge;
  if (bare) return 0;
  if (wr->send_flags & TESSERA_VERBS_SEND_INLINE) {
    int error = 0;
    for (int i = 0; i < wr->num_sge && error == 0; i++)
      error = tsr_append_inline(slot, (const void *)(uintptr_t)wr->sg_list[i].addr,
                                wr->sg_list[i].length);
    return error;
  }
  return tsr_fill_sges(tsr_of(qp->ibv.context), slot->payload.sges, wr->sg_list,
                       (size_t)wr->num_sge);
}

int tsr_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  struct tsr_qp *qp = (struct tsr_qp *)ibv;
  int error = 0;
  pthread_mutex_lock(&qp->sending);
  uint32_t head = qp->send_head;
  for (; wr; wr = wr->next) {
    tessera_hca_send_slot *slot = tsr_send_slot(qp, head);
    error = !tsr_may_send(qp) ? EINVAL : !slot ? ENOMEM : fill_send(qp, slot, wr);
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

int tsr_fill_recv(struct tsr_context *context, tessera_hca_recv_slot *slot,
                  const struct ibv_recv_wr *wr) {
  if (wr->num_sge < 0 || wr->num_sge > (int)TESSERA_HCA_MAX_SGE) return EINVAL;
  slot->id = wr->wr_id;
  slot->sge_count = (uint32_t)wr->num_sge;
  return tsr_fill_sges(context, slot->sges, wr->sg_list, (size_t)wr->num_sge);
}

int tsr_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  struct tsr_qp *qp = (struct tsr_qp *)ibv;
  int error = 0;
  pthread_mutex_lock(&qp->receiving);
  uint32_t head = qp->recv_head;
  for (; wr; wr = wr->next) {
    const uint32_t tail = __atomic_load_n(&qp->page->recv_tail, __ATOMIC_ACQUIRE);
    if (ibv->state == TESSERA_VERBS_STATE_RESET || ibv->srq)
      error = EINVAL;
    else if (head - tail >= qp->recv_count)
      error = ENOMEM;
    else
      error = tsr_fill_recv(tsr_of(ibv->context), &qp->recv_slots[head & (qp->recv_count - 1)], wr);
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
