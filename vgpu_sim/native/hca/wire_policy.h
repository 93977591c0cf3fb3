/* Where policy is asked about the wire: for each request that is begun, for each packet that asks.
 *
 * The two ends have an engine each. The requester's judges what its owner may ask for; the
 * responder's judges the whole flow again, source's egress and destination's ingress, because a
 * packet can be forged by whoever has a raw socket. */
#ifndef HCA_WIRE_POLICY_H
#define HCA_WIRE_POLICY_H

#include "wire.h"

/* Whether the owner of `qp` may make a request with this opcode of verbs. */
static inline bool wire_may_request(const struct hca_qp *qp, uint32_t opcode) {
  return hca_allowed(qp->policy.sends, hca_verbs_of(opcode));
}

/* What a request that policy denies ends with: as one to nobody where nothing is allowed. */
static inline uint32_t wire_denied(const struct hca_qp *qp) {
  return qp->policy.sends != 0 ? TESSERA_VERBS_STATUS_REM_ACCESS_ERR
                               : TESSERA_VERBS_STATUS_RETRY_EXC_ERR;
}

/* Whether the peer of `qp` may have a request with this opcode of verbs carried out. The `last`
 * packet of a WRITE alone tells whether it brings an immediate; those before it may do either. */
static inline bool wire_may_respond(const struct hca_qp *qp, uint32_t opcode, bool last) {
  const uint32_t mask = qp->policy.receives;
  if (opcode == TESSERA_VERBS_OPCODE_RDMA_WRITE && !last)
    return (mask & (TESSERA_VERB_WRITE | TESSERA_VERB_WRITE_IMM)) != 0;
  return hca_allowed(mask, hca_verbs_of(opcode));
}

#endif
