/* Policies as hcad sets them: many queue pairs in one call, between two turns of the engine. */
#include <stdlib.h>

#include "internal.h"

struct hca_flow *hca_flow_new(struct hca *hca) {
  (void)hca;
  return calloc(1, sizeof(struct hca_flow));
}

void hca_flow_free(struct hca *hca, struct hca_flow *flow) {
  (void)hca; /* no queue pair has it any more */
  free(flow);
}

void hca_flows_read(struct hca *hca, struct hca_flow *const *flows, uint32_t count,
                    tessera_hca_flow_counts *counts) {
  hca_enter(hca);
  for (uint32_t i = 0; i < count; i++) counts[i] = flows[i]->counts;
  hca_leave(hca);
}

/* What is being carried out stops where it is: nothing moves for this queue pair any more. */
static void revoke(struct hca *hca, struct hca_qp *qp) {
  if (qp->attributes.state == TESSERA_VERBS_STATE_ERR) return;
  hca_event(qp->client, TESSERA_VERBS_EVENT_QP_FATAL, qp->number);
  hca_fail(hca, qp);
}

void hca_policies_set(struct hca *hca, const tessera_hca_policy_change *changes, uint32_t count) {
  hca_enter(hca); /* whoever copies holds the lock: nobody does now */
  for (uint32_t i = 0; i < count; i++) {
    const tessera_hca_policy_change *change = &changes[i];
    struct hca_qp *qp = (struct hca_qp *)(uintptr_t)change->queue_pair;
    qp->policy = (struct hca_policy){
        .sends = change->sends,
        .receives = change->receives,
        .pkey = change->pkey,
        .generation = change->generation,
        .out = (struct hca_flow *)(uintptr_t)change->out,
        .in = (struct hca_flow *)(uintptr_t)change->in_,
    };
    if (change->revoke) revoke(hca, qp);
  }
  hca_leave(hca);
  hca_ring(hca);
}
