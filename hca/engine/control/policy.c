/* hcad's calls that set policies: many queue pairs in one call, between two turns of the engine. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/internal.h"

struct hca_flow *hca_flow_new(struct hca *hca) {
  (void)hca;
  return calloc(1, sizeof(struct hca_flow));
}

void hca_flow_free(struct hca *hca, struct hca_flow *flow) {
  (void)hca; /* no queue pair uses it any more */
  free(flow->limits);
  free(flow);
}

void hca_flows_read(struct hca *hca, struct hca_flow *const *flows, uint32_t count,
                    tessera_hca_flow_counts *counts) {
  hca_enter(hca);
  for (uint32_t i = 0; i < count; i++) counts[i] = flows[i]->counts;
  hca_leave(hca);
}

static struct hca_bucket bucket(uint64_t per_second, uint64_t burst) {
  return (struct hca_bucket){.per_ns = (double)per_second / 1e9,
                             .burst = (double)burst,
                             .tokens = (double)burst,
                             .filled_ns = hca_now_ns()};
}

struct hca_limit *hca_limit_new(struct hca *hca, uint64_t bytes_per_second, uint64_t burst_bytes,
                                uint64_t operations_per_second, uint64_t burst_operations) {
  (void)hca;
  struct hca_limit *limit = malloc(sizeof *limit);
  if (!limit) return NULL;
  *limit = (struct hca_limit){.bytes = bucket(bytes_per_second, burst_bytes),
                              .operations = bucket(operations_per_second, burst_operations)};
  return limit;
}

void hca_limit_free(struct hca *hca, struct hca_limit *limit) {
  (void)hca; /* no flow uses it any more */
  free(limit);
}

int hca_flow_limit(struct hca *hca, struct hca_flow *flow, struct hca_limit *const *limits,
                   uint32_t count) {
  struct hca_limit **copied = NULL;
  if (count != 0) {
    copied = malloc(count * sizeof *copied);
    if (!copied) return ENOMEM;
    memcpy(copied, limits, count * sizeof *copied);
  }
  hca_enter(hca);
  struct hca_limit **before = flow->limits;
  flow->limits = copied;
  flow->limit_count = count;
  hca_leave(hca);
  free(before);
  return 0;
}

/* The current request stops at once: no more data is copied for this queue pair. */
static void revoke(struct hca *hca, struct hca_qp *qp) {
  if (qp->attributes.state == TESSERA_VERBS_STATE_ERR) return;
  hca_event(qp->client, TESSERA_VERBS_EVENT_QP_FATAL, qp->number);
  hca_fail(hca, qp);
}

void hca_policy_set(struct hca *hca, const tessera_hca_policy_change *change) {
  struct hca_qp *qp = (struct hca_qp *)(uintptr_t)change->queue_pair;
  struct hca_ah *ah = (struct hca_ah *)(uintptr_t)change->address_handle;
  *(qp ? &qp->policy : &ah->policy) = (struct hca_policy){
      .sends = change->sends,
      .receives = change->receives,
      .pkey = change->pkey,
      .generation = change->generation,
      .out = (struct hca_flow *)(uintptr_t)change->out,
      .in = (struct hca_flow *)(uintptr_t)change->in_,
      .qos_class = change->qos_class,
      .device_only = change->device_only,
  };
  if (qp && change->revoke) revoke(hca, qp);
  /* A queue pair that waits for a rate limit may have another one now, or be denied: its
   * function's turns queue it again. */
  hca->policy_generation++;
}

void hca_policies_set(struct hca *hca, const tessera_hca_policy_change *changes, uint32_t count) {
  hca_enter(hca); /* copying requires the lock: no copy is in progress now */
  bool rings = hca->waiting_count != 0;
  for (uint32_t i = 0; i < count; i++) {
    hca_policy_set(hca, &changes[i]);
    rings |= changes[i].revoke != 0;
  }
  hca_leave(hca);
  if (rings) hca_ring(hca);
}
