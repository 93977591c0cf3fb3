/* Receive requests: a queue pair's own, or those of a shared receive queue.
 *
 * A receive request that was taken belongs to its queue pair until the message is complete,
 * whatever other queue pairs take from a shared queue meanwhile, and even if the peer fails. */
#include "requests/work.h"

static enum hca_taken take_shared(struct hca *hca, struct hca_qp *qp) {
  struct hca_srq *srq = qp->srq;
  const uint32_t count = __atomic_load_n(&srq->page->head, __ATOMIC_ACQUIRE) - srq->tail;
  if (!srq->broken && count > srq->count) {
    srq->broken = true;
    hca_event(srq->client, TESSERA_VERBS_EVENT_SRQ_ERR, srq->handle);
  }
  if (srq->broken) {
    if (qp->attributes.state != TESSERA_VERBS_STATE_ERR) {
      hca_event(qp->client, TESSERA_VERBS_EVENT_QP_FATAL, qp->number);
      hca_fail(hca, qp);
    }
    return HCA_TAKEN_BROKEN;
  }
  if (count == 0) return HCA_TAKEN_NONE;
  qp->held = srq->slots[srq->tail & (srq->count - 1)];
  __atomic_store_n(&srq->page->tail, ++srq->tail, __ATOMIC_RELEASE);
  if (srq->limit != 0 && count - 1 < srq->limit) {
    srq->limit = 0;
    hca_event(srq->client, TESSERA_VERBS_EVENT_SRQ_LIMIT_REACHED, srq->handle);
  }
  return HCA_TAKEN;
}

static enum hca_taken take_own(struct hca *hca, struct hca_qp *qp) {
  if (hca_pending(hca, qp, &qp->page->recv_head, qp->recv_tail, qp->recv_count) == 0)
    return qp->broken ? HCA_TAKEN_BROKEN : HCA_TAKEN_NONE;
  qp->held = qp->recv_slots[qp->recv_tail & (qp->recv_count - 1)];
  __atomic_store_n(&qp->page->recv_tail, ++qp->recv_tail, __ATOMIC_RELEASE);
  return HCA_TAKEN;
}

enum hca_taken hca_take(struct hca *hca, struct hca_qp *qp) {
  if (qp->holds) return HCA_TAKEN;
  const enum hca_taken taken = qp->srq ? take_shared(hca, qp) : take_own(hca, qp);
  qp->holds = taken == HCA_TAKEN;
  return taken;
}
