/* What an engine leaves to its successor, which maps the same pages: how far it had come.
 *
 * A request that is under way is not handed over. Its data may be copied again, and its receive
 * request, which is taken when the request is done, is read again: the successor begins it anew. */
#include "internal.h"

void hca_hold(struct hca *hca) {
  hca_enter(hca); /* turns are taken with the lock held: none is under way now */
  hca->held = true;
  hca_leave(hca);
}

void hca_release(struct hca *hca) {
  hca_enter(hca);
  hca->held = false;
  pthread_cond_signal(&hca->released);
  hca_leave(hca);
  hca_ring(hca);
}

void hca_cq_save(struct hca *hca, const struct hca_cq *cq, tessera_hca_saved_cq *saved) {
  hca_enter(hca);
  *saved = (tessera_hca_saved_cq){
      .head = cq->head, .events = cq->events, .overrun = cq->overrun};
  hca_leave(hca);
}

void hca_cq_load(struct hca *hca, struct hca_cq *cq, const tessera_hca_saved_cq *saved) {
  hca_enter(hca);
  cq->head = saved->head;
  cq->events = saved->events;
  cq->overrun = saved->overrun != 0;
  hca_leave(hca);
}

void hca_qp_save(struct hca *hca, const struct hca_qp *qp, tessera_hca_saved_qp *saved) {
  hca_enter(hca);
  *saved = (tessera_hca_saved_qp){.send_tail = qp->send_tail,
                                  .recv_tail = qp->recv_tail,
                                  .broken = qp->broken,
                                  .attributes = qp->attributes};
  hca_leave(hca);
}

void hca_qp_load(struct hca *hca, struct hca_qp *qp, const tessera_hca_saved_qp *saved) {
  hca_enter(hca);
  qp->send_tail = saved->send_tail;
  qp->recv_tail = saved->recv_tail;
  qp->broken = saved->broken != 0;
  qp->attributes = saved->attributes;
  hca_enqueue(hca, qp); /* it may have been at a request, or have something to flush */
  hca_leave(hca);
}
