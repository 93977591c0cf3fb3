/* What tables let a queue pair, or a datagram's address, do: judged by hcad, asked for each request.
 *
 * Masks are of rdma.verbs. They say nothing about memory: keys, ranges and access come afterwards. */
#ifndef HCA_POLICY_H
#define HCA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_rdma_abi.h"

/* Tokens that come at a rate, up to a burst; who has spent more than there were waits. */
struct hca_bucket {
  double per_ns, burst, tokens; /* per_ns 0: no limit */
  uint64_t filled_ns;
};

/* What one rule lets one pod do; several flows may share it. */
struct hca_limit {
  struct hca_bucket bytes, operations;
};

/* The requests of one flow, counted and held back; several queue pairs may share it. */
struct hca_flow {
  tessera_hca_flow_counts counts;
  struct hca_limit **limits;
  uint32_t limit_count;
};

/* rates.c. A bucket of bytes, empty; 0: no limit. */
struct hca_bucket hca_bucket_of(uint64_t per_second);
/* What comes at a rate must wait so long, 0 for not at all. */
uint64_t hca_bucket_wait_ns(struct hca_bucket *bucket, uint64_t now_ns);

/* How long a flow must wait, 0 for not at all; and what it has spent. */
uint64_t hca_flow_wait_ns(struct hca_flow *flow, uint64_t now_ns);
void hca_flow_spend(struct hca_flow *flow, uint64_t bytes, unsigned operations);

enum { HCA_PKEY_FULL = 0x8000 };

/* All zero, as after calloc(): nothing is allowed. */
struct hca_policy {
  uint32_t sends;    /* what its owner may ask of the peer: its own side's judgement */
  uint32_t receives; /* what the peer may ask of its owner */
  uint32_t pkey;     /* 15 bits of a partition, and HCA_PKEY_FULL */
  uint64_t generation;
  struct hca_flow *out, *in; /* NULL: not counted */
  uint32_t qos_class;        /* 0: none */
  uint32_t device_only;      /* flags of access that the peer has to memory of a GPU alone */
};

/* Whether a peer may have a remote access to a region of whoever has this policy: some it may have to
 * memory of a GPU alone. */
static inline bool hca_policy_opens(const struct hca_policy *policy, uint32_t region_access,
                                    uint32_t access) {
  return (policy->device_only & access) == 0 || (region_access & TESSERA_HCA_ACCESS_DEVICE) != 0;
}

enum hca_verdict { HCA_ALLOWED, HCA_DENIED, HCA_SILENT };

/* Bits of every verb that a request with this opcode of verbs is; 0 for none that is known. */
static inline uint32_t hca_verbs_of(uint32_t opcode) {
#define VERBS_OF(name, text, done, verbs, ...) [TESSERA_VERBS_OPCODE_##name] = verbs,
  static const uint16_t VERBS[] = {TESSERA_OPERATIONS(VERBS_OF)};
#undef VERBS_OF
  return opcode < sizeof VERBS / sizeof *VERBS ? VERBS[opcode] : 0;
}

/* One end's judgement, for each request and each packet. What is no known verb is not allowed. */
static inline bool hca_allowed(uint32_t mask, uint32_t verbs) {
  return verbs != 0 && (mask & verbs) == verbs;
}

/* Two limited members do not reach each other (IB specification volume 1, 10.9.3). */
static inline bool hca_shares_partition(uint32_t one, uint32_t other) {
  return ((one ^ other) & ~(uint32_t)HCA_PKEY_FULL) == 0 && ((one | other) & HCA_PKEY_FULL) != 0;
}

/* Both ends' judgement, where one engine has both: source's egress and destination's ingress. Who
 * may ask nothing at all of its peer is answered by silence, as by a peer that is not there. */
static inline enum hca_verdict hca_judge(const struct hca_policy *requester,
                                         const struct hca_policy *responder, uint32_t verbs) {
  if (!hca_shares_partition(requester->pkey, responder->pkey)) return HCA_SILENT;
  if (hca_allowed(requester->sends & responder->receives, verbs)) return HCA_ALLOWED;
  return requester->sends == 0 || responder->receives == 0 ? HCA_SILENT : HCA_DENIED;
}

/* Counts a request once, under the first of its verbs. */
static inline void hca_count_done(struct hca_flow *flow, uint32_t verbs, uint64_t bytes) {
  if (!flow || verbs == 0) return;
  const unsigned verb = (unsigned)__builtin_ctz(verbs);
  flow->counts.operations[verb]++;
  flow->counts.bytes[verb] += bytes;
}

/* The same of one that was denied, under the first of its verbs that `mask` has not. */
static inline void hca_count_denied(struct hca_flow *flow, uint32_t mask, uint32_t verbs) {
  const uint32_t missing = verbs & ~mask ? verbs & ~mask : verbs;
  if (flow && verbs != 0) flow->counts.denied[__builtin_ctz(missing)]++;
}

#endif
