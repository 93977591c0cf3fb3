/* What policy says of a queue pair's next request, or of what is left of it. */
#include "clock.h"
#include "work.h"

/* Policy ends the requester alone: whoever may not write must not be able to end who may read. */
static enum hca_step deny(struct hca *hca, struct hca_qp *qp, uint32_t verbs,
                          enum hca_verdict verdict) {
  if (qp->waiting != HCA_WAIT_PEER) hca_count_denied(qp->policy.out, verbs);
  if (verdict == HCA_SILENT) return hca_wait_for_peer(hca, qp);
  return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_REM_ACCESS_ERR);
}

enum hca_step hca_admit(struct hca *hca, struct hca_qp *qp, const struct hca_qp *peer) {
  const uint32_t verbs = hca_verbs_of(qp->work.send.opcode);
  const enum hca_verdict verdict = hca_judge(&qp->policy, &peer->policy, verbs);
  if (verdict != HCA_ALLOWED) return deny(hca, qp, verbs, verdict);
  struct hca_flow *flow = qp->policy.out;
  if (!flow || flow->limit_count == 0) return HCA_STEP_AGAIN;
  const uint64_t now_ns = hca_now_ns();
  const uint64_t wait_ns = hca_flow_wait_ns(flow, now_ns);
  if (wait_ns == 0) return HCA_STEP_AGAIN;
  hca_wait_until(hca, qp, HCA_WAIT_RATE, now_ns + wait_ns);
  return HCA_STEP_WAIT;
}

void hca_account(struct hca_qp *qp, uint32_t bytes, bool done) {
  struct hca_flow *flow = qp->policy.out;
  if (!flow) return;
  hca_flow_spend(flow, bytes, done);
  if (done) hca_count_done(flow, hca_verbs_of(qp->work.send.opcode), qp->work.bytes);
}
