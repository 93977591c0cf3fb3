/* Policy of a queue pair, or of a datagram's address: hcad evaluates the tables; the engine
 * applies the result to each request.
 *
 * Masks are sets of verbs as in rdma.verbs. They do not cover memory: the engine checks keys,
 * ranges and access flags after policy. */
#ifndef HCA_POLICY_H
#define HCA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_rdma_abi.h"

/* A token bucket: refilled at a rate, up to a burst. A flow with negative tokens waits. */
struct hca_bucket {
  double per_ns, burst, tokens; /* per_ns 0: no limit */
  uint64_t filled_ns;
};

/* The rate limit of one rule for one pod; several flows may share it. */
struct hca_limit {
  struct hca_bucket bytes, operations;
};

/* The counters and limits of one flow; several queue pairs may share it. */
struct hca_flow {
  tessera_hca_flow_counts counts;
  struct hca_limit **limits;
  uint32_t limit_count;
};

/* rates.c: make an empty bucket of bytes; 0: no limit. */
struct hca_bucket hca_bucket_of(uint64_t per_second);
/* Return how long a bucket must refill before more may be sent; 0: no time at all. */
uint64_t hca_bucket_wait_ns(struct hca_bucket *bucket, uint64_t now_ns);

/* Return how long a flow must wait; where that is 0, charge the flow. */
uint64_t hca_flow_wait_ns(struct hca_flow *flow, uint64_t now_ns);
void hca_flow_spend(struct hca_flow *flow, uint64_t bytes, unsigned operations);

enum { HCA_PKEY_FULL = 0x8000 };

/* All zero, as after calloc(): nothing is allowed. */
struct hca_policy {
  uint32_t sends;    /* verbs that its owner may request from the peer, by the owner's policy */
  uint32_t receives; /* verbs that the peer may request from its owner */
  uint32_t pkey;     /* a partition's 15 bits, and HCA_PKEY_FULL */
  uint64_t generation;
  struct hca_flow *out, *in; /* NULL: not counted */
  uint32_t qos_class;        /* 0: none */
  uint32_t device_only;      /* access flags that the peer has only on GPU memory */
};

/* Whether policy allows a peer a remote access to a region; policy may limit an access to GPU
 * memory. */
static inline bool hca_policy_opens(const struct hca_policy *policy, uint32_t region_access,
                                    uint32_t access) {
  return (policy->device_only & access) == 0 || (region_access & TESSERA_HCA_ACCESS_DEVICE) != 0;
}

enum hca_verdict { HCA_ALLOWED, HCA_DENIED, HCA_SILENT };

/* Return the bits of every verb that a request with this opcode uses; 0 for an unknown opcode. */
static inline uint32_t hca_verbs_of(uint32_t opcode) {
#define VERBS_OF(name, text, done, verbs, ...) [TESSERA_VERBS_OPCODE_##name] = verbs,
  static const uint16_t VERBS[] = {TESSERA_OPERATIONS(VERBS_OF)};
#undef VERBS_OF
  return opcode < sizeof VERBS / sizeof *VERBS ? VERBS[opcode] : 0;
}

/* Check one end's policy, for each request and packet. An unknown verb is denied. */
static inline bool hca_allowed(uint32_t mask, uint32_t verbs) {
  return verbs != 0 && (mask & verbs) == verbs;
}

/* Two limited members do not reach each other (IB specification volume 1, 10.9.3). */
static inline bool hca_shares_partition(uint32_t one, uint32_t other) {
  return ((one ^ other) & ~(uint32_t)HCA_PKEY_FULL) == 0 && ((one | other) & HCA_PKEY_FULL) != 0;
}

/* Evaluate both ends' policies where one engine has both: the source's egress and the
 * destination's ingress. A requester that is allowed no verb at all gets no response, as if the
 * peer were absent. */
static inline enum hca_verdict hca_evaluate(const struct hca_policy *requester,
                                            const struct hca_policy *responder,
                                            uint32_t verbs) {
  if (!hca_shares_partition(requester->pkey, responder->pkey)) return HCA_SILENT;
  if (hca_allowed(requester->sends & responder->receives, verbs)) return HCA_ALLOWED;
  return requester->sends == 0 || responder->receives == 0 ? HCA_SILENT : HCA_DENIED;
}

/* Count a request once, under its first verb. */
static inline void hca_count_done(struct hca_flow *flow, uint32_t verbs, uint64_t bytes) {
  if (!flow || verbs == 0) return;
  const unsigned verb = (unsigned)__builtin_ctz(verbs);
  flow->counts.operations[verb]++;
  flow->counts.bytes[verb] += bytes;
}

/* Count a denied request, under its first verb that `mask` does not contain. */
static inline void hca_count_denied(struct hca_flow *flow, uint32_t mask, uint32_t verbs) {
  const uint32_t missing = verbs & ~mask ? verbs & ~mask : verbs;
  if (flow && verbs != 0) flow->counts.denied[__builtin_ctz(missing)]++;
}

#endif
