/* Where policy is asked about the wire: for each request that is begun, for each packet that asks.
 *
 * The two ends have an engine each. The requester's judges what its owner may ask for; the
 * responder's judges the whole flow again, source's egress and destination's ingress, because a
 * packet can be forged by whoever has a raw socket. */
#ifndef HCA_WIRE_POLICY_H
#define HCA_WIRE_POLICY_H

#include "wire/wire.h"

/* Which request of verbs a packet belongs to: what policy is asked about. */
static inline uint32_t wire_opcode_of(const struct wire_packet *packet) {
  return packet->form.operation;
}

/* Bits of every verb that a request of `bytes` bytes with this opcode is on a wire. Only the last
 * packet of a WRITE says whether it brings an immediate, and those before it are written by then: who
 * may do no WRITE may write with an immediate what one packet holds, and no more. */
static inline uint32_t wire_verbs_of(uint32_t opcode, uint32_t bytes, uint32_t mtu) {
  const bool several = tessera_is_one_of(TESSERA_OPERATIONS_WRITE, opcode) && bytes > mtu;
  return hca_verbs_of(opcode) | (several ? TESSERA_VERB_WRITE : 0);
}

/* Whether the owner of `qp` may make a request that is these verbs. */
static inline bool wire_may_request(const struct hca_qp *qp, uint32_t verbs) {
  return hca_allowed(qp->policy.sends, verbs);
}

/* What a request that policy denies ends with: as one to nobody where nothing is allowed. */
static inline uint32_t wire_denied(const struct hca_qp *qp) {
  return qp->policy.sends != 0 ? TESSERA_VERBS_STATUS_REM_ACCESS_ERR
                               : TESSERA_VERBS_STATUS_RETRY_EXC_ERR;
}

/* Whether the peer of `qp` may have a request with this opcode of verbs carried out. What is no last
 * packet of a WRITE is of a plain one: see above. */
static inline bool wire_may_respond(const struct hca_qp *qp, uint32_t opcode) {
  return hca_allowed(qp->policy.receives, hca_verbs_of(opcode));
}

#endif
