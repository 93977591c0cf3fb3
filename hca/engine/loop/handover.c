/* Handover of the engine's state to its successor, which maps the same pages.
 *
 * A request in progress is not handed over: the successor starts it again. Its data may be
 * copied twice. Its receive request is read again, because that is consumed only when the
 * request is complete. */
#include "base/internal.h"

void hca_hold(struct hca *hca) {
  hca_enter(hca); /* turns run with the lock held, so none is in progress now */
  hca->held = true;
  hca_leave(hca);
}

void hca_release(struct hca *hca) {
  hca_enter(hca);
  hca->held = false;
  hca_read_all_soon(hca);
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
  /* the predecessor's walk may not have reached it */
  cq->client->rearm_left = cq->client->cq_count;
  hca_set_due(cq->client, HCA_WALK_ARMED);
  hca_leave(hca);
}

void hca_qp_save(struct hca *hca, const struct hca_qp *qp, tessera_hca_saved_qp *saved) {
  hca_enter(hca);
  *saved = (tessera_hca_saved_qp){.send_tail = qp->send_tail,
                                  .recv_tail = qp->recv_tail,
                                  .broken = qp->broken,
                                  .drained = qp->drained,
                                  .said_last_wqe = qp->said_last_wqe,
                                  .holds = qp->holds,
                                  .attributes = qp->attributes,
                                  .held = qp->held};
  hca_wire_save(qp, &saved->wire);
  hca_leave(hca);
}

bool hca_qp_load(struct hca *hca, struct hca_qp *qp, const tessera_hca_saved_qp *saved) {
  hca_enter(hca);
  hca_forget(hca, qp); /* it may have been loaded earlier and be waiting */
  qp->work.active = false;
  qp->send_tail = saved->send_tail;
  qp->recv_tail = saved->recv_tail;
  qp->broken = saved->broken != 0;
  qp->drained = saved->drained != 0;
  qp->said_last_wqe = saved->said_last_wqe != 0;
  qp->holds = saved->holds != 0;
  qp->held = saved->held;
  qp->attributes = saved->attributes;
  const bool loaded = hca_wire_load(hca, qp, &saved->wire);
  hca_enqueue(hca, qp); /* it may have had a request in progress, or completions to flush */
  hca_leave(hca);
  return loaded;
}

void hca_srq_save(struct hca *hca, const struct hca_srq *srq, tessera_hca_saved_srq *saved) {
  hca_enter(hca);
  *saved = (tessera_hca_saved_srq){
      .tail = srq->tail, .limit = srq->limit, .broken = srq->broken};
  hca_leave(hca);
}

void hca_srq_load(struct hca *hca, struct hca_srq *srq, const tessera_hca_saved_srq *saved) {
  hca_enter(hca);
  srq->tail = saved->tail;
  srq->limit = saved->limit;
  srq->broken = saved->broken != 0;
  hca_leave(hca);
}

/* A window whose region has been removed opens nothing, even if another region has the key by
 * now. */
void hca_window_save(struct hca *hca, const struct hca_window *window,
                     tessera_hca_saved_window *saved) {
  hca_enter(hca);
  const struct hca_region *region = hca_table_get(&hca->regions, window->region_key);
  const bool there = region && region->serial == window->region_serial;
  *saved = (tessera_hca_saved_window){.key = window->key,
                                      .bound = window->bound,
                                      .region_key = there ? window->region_key : 0,
                                      .qpn = window->qpn,
                                      .access = window->access,
                                      .address = window->address,
                                      .bytes = window->bytes};
  hca_leave(hca);
}

void hca_window_load(struct hca *hca, struct hca_window *window,
                     const tessera_hca_saved_window *saved) {
  hca_enter(hca);
  const struct hca_region *region = hca_table_get(&hca->regions, saved->region_key);
  window->key = saved->key;
  window->bound = saved->bound != 0;
  window->region_key = saved->region_key;
  window->region_serial = region ? region->serial : UINT64_MAX;
  window->qpn = saved->qpn;
  window->access = saved->access;
  window->address = saved->address;
  window->bytes = saved->bytes;
  hca_leave(hca);
}
