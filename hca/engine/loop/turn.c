/* A queue pair's turn: executes its next requests on the memory of both ends.
 *
 * A request is copied out of the ring once and then checked. Its addresses are translated again
 * for each part that is copied, because a region may be removed in between. */
#include "requests/work.h"

/* Return how much of the function's credit this turn of a queue pair may still use; the turn
 * ends when the credit has fallen to `end`. */
static int64_t left_of(const struct hca *hca, int64_t end) { return hca->charged->credit - end; }

/* Copy the next request out of the ring, and check what the requester is responsible for. */
static enum hca_step start(struct hca *hca, struct hca_qp *qp) {
  struct hca_work *work = &qp->work;
  if (hca_pending(hca, qp, &qp->page->send_head, qp->send_tail, qp->send_count) == 0)
    return HCA_STEP_DONE;
  work->send = qp->send_slots[qp->send_tail & (qp->send_count - 1)];
  work->bytes = work->done = 0;
  work->receives = work->denied = work->admitted = false;
  const uint32_t status = hca_check_local(hca, qp);
  if (status != TESSERA_VERBS_STATUS_SUCCESS) return hca_fail_send(hca, qp, status);
  work->active = true;
  return HCA_STEP_AGAIN;
}

/* Advance a request until its data can be copied, or until it must wait. */
static enum hca_step begin(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  struct hca_work *work = &qp->work;
  if (work->receives && !peer->holds) { /* the peer was reset in the middle of the message */
    work->receives = false;
    work->done = 0;
    work->local = (struct hca_cursor){work->send.payload.sges, work->send.sge_count, 0, 0};
  }
  enum hca_step step = hca_admit(hca, qp, peer);
  if (step != HCA_STEP_AGAIN) return step;
  step = hca_check_remote(hca, qp, peer);
  if (step != HCA_STEP_AGAIN) return step;
  if (hca_takes_receive(work->send.opcode) && !work->receives) {
    step = hca_take_receive(hca, qp, peer);
    if (step != HCA_STEP_AGAIN) return step;
  }
  hca_wait_end(hca, qp);
  return HCA_STEP_AGAIN;
}

/* A copy hit a hole in the file of a region: access the local side to find out whose file it is. */
static enum hca_step lose_either(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer,
                                 const uint8_t *local, uint64_t bytes) {
  uint8_t byte;
  bool local_there = true;
  for (uint64_t at = 0; at < bytes && local_there; at += TESSERA_HCA_PAGE_BYTES)
    local_there = hca_copy(&byte, local + at, 1);
  if (local_there) local_there = hca_copy(&byte, local + bytes - 1, 1);
  return local_there ? hca_lose_remote(hca, qp, peer)
                     : hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
}

/* Copy data of the request until the turn ends; HCA_STEP_DONE when it is complete. */
static enum hca_step move(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer, int64_t end) {
  struct hca_work *work = &qp->work;
  while (work->done < work->bytes) {
    const int64_t left = left_of(hca, end);
    if (left <= 0) return HCA_STEP_AGAIN;
    uint64_t here_bytes = 0, there_bytes = 0;
    uint8_t *here = hca_local_memory(hca, qp, &here_bytes);
    if (!here) return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
    uint8_t *there = hca_remote_memory(hca, peer, work, &there_bytes);
    if (!there) return hca_lose_remote(hca, qp, peer);
    uint64_t bytes = here_bytes < there_bytes ? here_bytes : there_bytes;
    if (bytes > (uint64_t)left) bytes = (uint64_t)left;
    hca_charge(hca, bytes + HCA_PART_COST);
    const bool reading = hca_is_read(work->send.opcode);
    if (!hca_copy(reading ? here : there, reading ? there : here, bytes))
      return lose_either(hca, qp, peer, here, bytes);
    work->done += (uint32_t)bytes;
    work->local.offset += (uint32_t)bytes;
    work->remote.offset += (uint32_t)bytes;
  }
  return HCA_STEP_DONE;
}

static void flush_one(struct hca *hca, struct hca_qp *qp, struct hca_cq *cq, uint64_t id,
                      uint32_t opcode) {
  hca_finish(
      hca, qp, cq,
      (tessera_hca_cqe){.id = id, .status = TESSERA_VERBS_STATUS_WR_FLUSH_ERR, .opcode = opcode},
      false);
}

/* Flush requests until the turn ends; true where more are left. */
static bool flush_sends(struct hca *hca, struct hca_qp *qp, int64_t end) {
  const uint32_t sends = hca_pending(hca, qp, &qp->page->send_head, qp->send_tail, qp->send_count);
  for (uint32_t i = 0; i < sends; i++) {
    if (left_of(hca, end) <= 0) return true;
    hca_charge(hca, HCA_REQUEST_COST);
    const uint64_t id = qp->send_slots[qp->send_tail & (qp->send_count - 1)].id;
    __atomic_store_n(&qp->page->send_tail, ++qp->send_tail, __ATOMIC_RELEASE);
    flush_one(hca, qp, qp->send_cq, id, TESSERA_VERBS_DONE_SEND);
  }
  return false;
}

static bool flush_receives(struct hca *hca, struct hca_qp *qp, int64_t end) {
  if (qp->holds) {
    qp->holds = false;
    flush_one(hca, qp, qp->recv_cq, qp->held.id, TESSERA_VERBS_DONE_RECV);
  }
  if (qp->srq) {
    if (!qp->said_last_wqe)
      hca_event(qp->client, TESSERA_VERBS_EVENT_QP_LAST_WQE_REACHED, qp->number);
    qp->said_last_wqe = true;
    return false;
  }
  const uint32_t receives =
      hca_pending(hca, qp, &qp->page->recv_head, qp->recv_tail, qp->recv_count);
  for (uint32_t i = 0; i < receives; i++) {
    if (left_of(hca, end) <= 0) return true;
    hca_charge(hca, HCA_REQUEST_COST);
    const uint64_t id = qp->recv_slots[qp->recv_tail & (qp->recv_count - 1)].id;
    __atomic_store_n(&qp->page->recv_tail, ++qp->recv_tail, __ATOMIC_RELEASE);
    flush_one(hca, qp, qp->recv_cq, id, TESSERA_VERBS_DONE_RECV);
  }
  return false;
}

/* Queue the requester that waits for a receive request of `qp`, if there is one now. hca_wake()
 * queues those that wait for a shared receive queue. A queue pair that is its own peer must not
 * wake itself forever. */
static void wake_requester(struct hca *hca, struct hca_qp *qp) {
  if (qp->srq || __atomic_load_n(&qp->page->recv_head, __ATOMIC_ACQUIRE) == qp->recv_tail) return;
  struct hca_qp *requester = hca_table_get(&hca->qps, qp->attributes.dest_qpn);
  if (requester && requester->waiting == HCA_WAIT_RECEIVE && hca_peer(hca, requester) == qp)
    hca_enqueue(hca, requester);
}

static enum hca_step advance(struct hca *hca, struct hca_qp *qp, int64_t end) {
  struct hca_work *work = &qp->work;
  if (!work->active) {
    const enum hca_step step = start(hca, qp);
    if (step != HCA_STEP_AGAIN) return step;
  }
  if (hca_is_own(work->send.opcode)) {
    const uint32_t status = hca_carry_out_own(hca, qp);
    if (status != TESSERA_VERBS_STATUS_SUCCESS) return hca_fail_send(hca, qp, status);
    hca_end_send(hca, qp, status);
    return HCA_STEP_AGAIN;
  }
  if (qp->type == TESSERA_VERBS_QP_TYPE_UD) return hca_carry_out_datagram(hca, qp);
  if (qp->type == TESSERA_VERBS_QP_TYPE_RAW_PACKET) return hca_carry_out_frame(hca, qp);
  struct hca_qp *peer = hca_peer(hca, qp);
  if (!peer) return hca_wait_for_peer(hca, qp);
  enum hca_step step = begin(hca, qp, peer);
  if (step != HCA_STEP_AGAIN) return step;
  const uint32_t before = work->done;
  const bool atomic = hca_is_atomic(work->send.opcode) || hca_is_atomic_write(work->send.opcode);
  step = atomic ? hca_carry_out_atomic(hca, qp, peer) : move(hca, qp, peer, end);
  hca_account(qp, work->done - before, step == HCA_STEP_DONE);
  if (step != HCA_STEP_DONE) return step;
  if (work->receives) hca_end_receive(hca, peer, qp, TESSERA_VERBS_STATUS_SUCCESS);
  hca_end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
  return HCA_STEP_AGAIN;
}

/* InfiniBand Architecture Specification volume 1, "Send Queue Drain": the current request is
 * completed, and no other begins. */
static void drain(struct hca *hca, struct hca_qp *qp) {
  hca_wait_end(hca, qp);
  if (qp->drained) return;
  qp->drained = true;
  if (qp->attributes.sqd_notify)
    hca_event(qp->client, TESSERA_VERBS_EVENT_SQ_DRAINED, qp->number);
}

bool hca_turn(struct hca *hca, struct hca_qp *qp) {
  if (qp->client->ended) {
    hca_wait_end(hca, qp);
    return false;
  }
  wake_requester(hca, qp);
  if (qp->wired && qp->attributes.state > TESSERA_VERBS_STATE_SQD) hca_wire_stop(hca, qp);
  const int64_t end = hca->charged->credit - HCA_TURN_BYTES;
  while (left_of(hca, end) > 0) {
    switch (qp->attributes.state) {
      case TESSERA_VERBS_STATE_RTS:
        break;
      case TESSERA_VERBS_STATE_SQD:
        if (qp->work.active || hca_wire_is_busy(qp)) break;
        drain(hca, qp);
        if (qp->wired) break; /* its peer's requests are still answered */
        return false;
      case TESSERA_VERBS_STATE_ERR:
        return flush_sends(hca, qp, end) || flush_receives(hca, qp, end);
      case TESSERA_VERBS_STATE_SQE:
        return flush_sends(hca, qp, end);
      default:
        if (qp->wired) return hca_wire_turn(hca, qp);
        hca_wait_end(hca, qp);
        return false;
    }
    if (qp->wired) return hca_wire_turn(hca, qp);
    hca_charge(hca, HCA_REQUEST_COST);
    const enum hca_step step = advance(hca, qp, end);
    if (step == HCA_STEP_DONE || step == HCA_STEP_WAIT) return false;
  }
  return true;
}
