/* Policy checks for a queue pair's next request, or for the rest of it. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "requests/work.h"

/* Deny a request. Policy makes only the requester fail: a peer that may not write must not be
 * able to break a connection whose other end may read. Unreliable connections and datagrams get
 * no error. */
static enum hca_step deny(struct hca *hca, struct hca_qp *qp, const struct hca_qp *peer,
                          uint32_t verbs, enum hca_verdict verdict) {
  const uint32_t mask = qp->policy.sends & peer->policy.receives;
  if (!qp->work.denied) hca_count_denied(qp->policy.out, mask, verbs);
  qp->work.denied = true;
  if (verdict == HCA_SILENT || qp->type == TESSERA_VERBS_QP_TYPE_UC)
    return hca_wait_for_peer(hca, qp);
  return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_REM_ACCESS_ERR);
}

static enum hca_step pace(struct hca *hca, struct hca_qp *qp, struct hca_flow *flow) {
  if (!flow || flow->limit_count == 0) return HCA_STEP_AGAIN;
  const uint64_t now_ns = hca_now_ns();
  const uint64_t wait_ns = hca_flow_wait_ns(flow, now_ns);
  if (wait_ns == 0) return HCA_STEP_AGAIN;
  hca_wait_until(hca, qp, HCA_WAIT_RATE, now_ns + wait_ns);
  return HCA_STEP_WAIT;
}

static void account(struct hca_flow *flow, uint32_t verbs, uint32_t bytes, uint32_t part,
                    bool done) {
  if (!flow) return;
  hca_flow_spend(flow, part, done);
  if (done) hca_count_done(flow, verbs, bytes);
}

enum hca_step hca_admit(struct hca *hca, struct hca_qp *qp, const struct hca_qp *peer) {
  const uint32_t verbs = hca_verbs_of(qp->work.send.opcode);
  const enum hca_verdict verdict = hca_evaluate(&qp->policy, &peer->policy, verbs);
  if (verdict != HCA_ALLOWED) return deny(hca, qp, peer, verbs, verdict);
  return pace(hca, qp, qp->policy.out);
}

void hca_account(struct hca_qp *qp, uint32_t bytes, bool done) {
  const struct hca_work *work = &qp->work;
  account(qp->policy.out, hca_verbs_of(work->send.opcode), work->bytes, bytes, done);
}

enum hca_step hca_admit_datagram(struct hca *hca, struct hca_qp *qp, const struct hca_ah *ah) {
  if (!hca_allowed(ah->policy.sends, TESSERA_VERB_UD)) {
    hca_count_denied(ah->policy.out, 0, TESSERA_VERB_UD);
    hca_end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
    return HCA_STEP_FAILED;
  }
  /* it was admitted before and has waited for room on a wire */
  if (qp->work.admitted) return HCA_STEP_AGAIN;
  const enum hca_step step = pace(hca, qp, ah->policy.out);
  if (step != HCA_STEP_AGAIN) return step;
  qp->work.admitted = true;
  account(ah->policy.out, TESSERA_VERB_UD, qp->work.bytes, qp->work.bytes, true);
  hca_wait_end(hca, qp);
  return HCA_STEP_AGAIN;
}
