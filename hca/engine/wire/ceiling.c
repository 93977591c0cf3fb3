/* Policy for requests in flight: new tables, and rate limits. Packets that are sent for the
 * first time wait until the flow's limits allow them; retransmissions were charged when first
 * sent. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "wire/wire.h"
#include "wire/policy.h"
#include "requests/work.h"

static bool is_new(const struct wire_requester *requester) {
  return requester->next_psn == requester->top_psn;
}

void wire_deny(struct hca *hca, struct hca_qp *qp, struct wire_request *request) {
  struct wire_requester *requester = &qp->wired->requester;
  hca_count_denied(qp->policy.out, qp->policy.sends,
                   wire_verbs_of(request->send.opcode, request->bytes, qp->wired->mtu));
  if (!wire_is_unreliable(qp)) {
    request->status = wire_denied(qp);
    return;
  }
  /* Send no more of it. Later requests are taken from the ring again, with other PSNs. */
  request->packets = 0;
  requester->head = requester->sending + 1;
  requester->free_psn = requester->next_psn;
  hca_enqueue(hca, qp);
}

bool wire_is_held_back(struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  struct hca_flow *flow = qp->policy.out;
  if (!flow || flow->limit_count == 0 || !is_new(requester)) return false;
  const uint64_t now_ns = hca_now_ns(), wait_ns = hca_flow_wait_ns(flow, now_ns);
  if (wait_ns == 0) return false;
  requester->resume_ns = now_ns + wait_ns;
  return true;
}

void wire_spend(struct hca_qp *qp, const struct wire_request *request, uint32_t packets) {
  const struct wire_requester *requester = &qp->wired->requester;
  struct hca_flow *flow = qp->policy.out;
  if (!flow || flow->limit_count == 0 || !is_new(requester)) return;
  const uint32_t mtu = qp->wired->mtu;
  const uint32_t place = (uint32_t)wire_psn_distance(requester->next_psn, request->first_psn);
  const uint32_t left = request->bytes - place * mtu;
  const uint64_t bytes = (uint64_t)packets * mtu;
  hca_flow_spend(flow, bytes < left ? bytes : left, place + packets == request->packets);
}

uint64_t wire_wake_ns(struct wire_requester *requester) {
  const uint64_t resume_ns = requester->resume_ns, deadline_ns = requester->deadline_ns;
  requester->resume_ns = 0;
  if (resume_ns == 0 || deadline_ns == 0) return resume_ns | deadline_ns;
  return resume_ns < deadline_ns ? resume_ns : deadline_ns;
}
