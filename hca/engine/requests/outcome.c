/* Completion of requests, their errors, and their waits for the peer. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "requests/work.h"

enum { RETRIES_WITHOUT_END = 7 /* rnr_retry value */ };

/* InfiniBand Architecture Specification volume 1, "RNR NAK timer field": microseconds. */
static const uint32_t RNR_US[32] = {655360, 10,    20,    30,    40,    60,    80,     120,
                                    160,    240,   320,   480,   640,   960,   1280,   1920,
                                    2560,   3840,  5120,  7680,  10240, 15360, 20480,  30720,
                                    40960,  61440, 81920, 122880, 163840, 245760, 327680, 491520};

#define DONE(name, text, done, ...) [TESSERA_VERBS_OPCODE_##name] = TESSERA_VERBS_DONE_##done,
static const uint32_t DONE_AS[] = {TESSERA_OPERATIONS(DONE)};
#undef DONE

uint64_t hca_pause_ns(unsigned code) { return RNR_US[code & 31] * UINT64_C(1000); }

void hca_fail(struct hca *hca, struct hca_qp *qp) {
  qp->attributes.state = TESSERA_VERBS_STATE_ERR;
  qp->work.active = false;
  hca_wait_end(hca, qp);
  hca_enqueue(hca, qp); /* to flush the posted requests */
}

void hca_finish(struct hca *hca, struct hca_qp *qp, struct hca_cq *cq, tessera_hca_cqe entry,
                bool solicited) {
  entry.qpn = qp->number;
  entry.pkey_index = qp->attributes.pkey_index;
  if (hca_complete(cq, &entry, solicited)) return;
  if (qp->attributes.state == TESSERA_VERBS_STATE_ERR) return;
  hca_event(qp->client, TESSERA_VERBS_EVENT_QP_FATAL, qp->number);
  hca_fail(hca, qp);
}

void hca_end_send(struct hca *hca, struct hca_qp *qp, uint32_t status) {
  const tessera_hca_send_slot *send = &qp->work.send;
  qp->work.active = false;
  qp->waits = 0;
  __atomic_store_n(&qp->page->send_tail, ++qp->send_tail, __ATOMIC_RELEASE);
  const bool wanted = qp->signal_all || (send->flags & TESSERA_VERBS_SEND_SIGNALED);
  if (status == TESSERA_VERBS_STATUS_SUCCESS && !wanted) return;
  const uint32_t known = send->opcode < sizeof DONE_AS / sizeof *DONE_AS ? send->opcode : 0;
  hca_finish(hca, qp, qp->send_cq,
             (tessera_hca_cqe){.id = send->id,
                               .status = status,
                               .opcode = DONE_AS[known],
                               .bytes = qp->work.bytes},
             false);
}

enum hca_step hca_fail_send(struct hca *hca, struct hca_qp *qp, uint32_t status) {
  hca_end_send(hca, qp, status);
  if (qp->type == TESSERA_VERBS_QP_TYPE_RC) {
    hca_fail(hca, qp);
  } else if (qp->attributes.state != TESSERA_VERBS_STATE_ERR) {
    /* Without acknowledgements the receive queue is not affected. */
    qp->attributes.state = TESSERA_VERBS_STATE_SQE;
    hca_wait_end(hca, qp);
    hca_enqueue(hca, qp); /* to flush the sends */
  }
  return HCA_STEP_FAILED;
}

/* Without acknowledgements the requester gets no report that a request was dropped. */
static enum hca_step drop(struct hca *hca, struct hca_qp *qp) {
  hca_wait_end(hca, qp);
  hca_end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
  return HCA_STEP_FAILED;
}

void hca_end_receive(struct hca *hca, struct hca_qp *peer, const struct hca_qp *qp,
                     uint32_t status) {
  const struct hca_work *work = &qp->work;
  const uint32_t opcode = work->send.opcode;
  uint32_t flags = hca_has_immediate(opcode) ? TESSERA_VERBS_WC_FLAG_WITH_IMM : 0;
  if (hca_invalidates(opcode)) {
    flags = TESSERA_VERBS_WC_FLAG_WITH_INV;
    if (status == TESSERA_VERBS_STATUS_SUCCESS) hca_invalidate(hca, work->send.immediate);
  }
  peer->holds = false;
  hca_finish(hca, peer, peer->recv_cq,
             (tessera_hca_cqe){.id = peer->held.id,
                               .status = status,
                               .opcode = hca_is_send(opcode)
                                             ? TESSERA_VERBS_DONE_RECV
                                             : TESSERA_VERBS_DONE_RECV_RDMA_WITH_IMM,
                               .bytes = work->bytes,
                               .immediate = flags ? work->send.immediate : 0,
                               .source_qpn = qp->number,
                               .flags = flags},
             work->send.flags & TESSERA_VERBS_SEND_SOLICITED);
}

enum hca_step hca_refuse(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer, uint32_t event,
                         uint32_t status) {
  if (qp->type == TESSERA_VERBS_QP_TYPE_UC) return drop(hca, qp);
  hca_event(peer->client, event, peer->number);
  hca_fail(hca, peer);
  return hca_fail_send(hca, qp, status);
}

enum hca_step hca_refuse_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer,
                                 uint32_t there, uint32_t here) {
  if (qp->type == TESSERA_VERBS_QP_TYPE_UC) return drop(hca, qp);
  hca_end_receive(hca, peer, qp, there);
  hca_fail(hca, peer);
  return hca_fail_send(hca, qp, here);
}

/* Whether the wake-up time is still in the future, because something else has woken the queue
 * pair. */
static bool waits_still(struct hca_qp *qp, enum hca_wait why, uint64_t now_ns) {
  if (qp->waiting == why) return now_ns < qp->wake_ns;
  qp->waits = 0;
  return false;
}

enum hca_step hca_wait_for_peer(struct hca *hca, struct hca_qp *qp) {
  if (qp->type == TESSERA_VERBS_QP_TYPE_UC) return drop(hca, qp);
  const tessera_hca_qp_attributes *own = &qp->attributes;
  const uint64_t now_ns = hca_now_ns();
  if (waits_still(qp, HCA_WAIT_PEER, now_ns)) return HCA_STEP_WAIT;
  if (own->timeout != 0 && qp->waits++ > own->retry_count)
    return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_RETRY_EXC_ERR);
  /* Without a timeout a wire never retransmits; here the engine checks from time to time. */
  const unsigned exponent = own->timeout ? own->timeout : 14;
  hca_wait_until(hca, qp, HCA_WAIT_PEER, now_ns + (UINT64_C(4096) << exponent));
  return HCA_STEP_WAIT;
}

enum hca_step hca_wait_for_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  if (qp->type == TESSERA_VERBS_QP_TYPE_UC) return drop(hca, qp);
  const uint64_t now_ns = hca_now_ns();
  if (waits_still(qp, HCA_WAIT_RECEIVE, now_ns)) return HCA_STEP_WAIT;
  const uint8_t limit = qp->attributes.rnr_retry;
  if (limit != RETRIES_WITHOUT_END && qp->waits++ >= limit)
    return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_RNR_RETRY_EXC_ERR);
  const uint64_t wake_ns = now_ns + hca_pause_ns(peer->attributes.min_rnr_timer);
  if (peer->srq)
    hca_wait_for_srq(hca, qp, peer->srq, wake_ns);
  else
    hca_wait_until(hca, qp, HCA_WAIT_RECEIVE, wake_ns);
  return HCA_STEP_WAIT;
}

static void broken(struct hca *hca, struct hca_qp *qp) {
  qp->broken = true;
  hca_event(qp->client, TESSERA_VERBS_EVENT_QP_FATAL, qp->number);
  hca_fail(hca, qp);
}

uint32_t hca_pending(struct hca *hca, struct hca_qp *qp, const uint32_t *head, uint32_t tail,
                     uint32_t room) {
  if (qp->broken) return 0;
  const uint32_t count = __atomic_load_n(head, __ATOMIC_ACQUIRE) - tail;
  if (count <= room) return count;
  broken(hca, qp);
  return 0;
}
