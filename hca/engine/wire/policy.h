/* Policy checks for the wire: for each request that begins, and for each packet that requests
 * something.
 *
 * Each end has its own engine. The requester's engine checks what its owner may request. The
 * responder's engine checks the whole flow again, both the source's egress and the destination's
 * ingress, because any process with a raw socket can forge packets. */
#ifndef HCA_WIRE_POLICY_H
#define HCA_WIRE_POLICY_H

#include "wire/wire.h"

/* Return the verbs opcode of the request that a packet belongs to; policy is checked for that
 * opcode. */
static inline uint32_t wire_opcode_of(const struct wire_packet *packet) {
  return packet->form.operation;
}

/* Return the bits of every verb that a request of `bytes` bytes uses on a wire. Only the last
 * packet of a WRITE shows whether it has an immediate, and the packets before it have been
 * written by then. So a pod without the right to WRITE can write with an immediate only as much
 * as fits in one packet. */
static inline uint32_t wire_verbs_of(uint32_t opcode, uint32_t bytes, uint32_t mtu) {
  const bool several = tessera_is_one_of(TESSERA_OPERATIONS_WRITE, opcode) && bytes > mtu;
  return hca_verbs_of(opcode) | (several ? TESSERA_VERB_WRITE : 0);
}

/* Whether the owner of `qp` may make a request that uses these verbs. */
static inline bool wire_may_request(const struct hca_qp *qp, uint32_t verbs) {
  return hca_allowed(qp->policy.sends, verbs);
}

/* Return the status of a denied request: if no verb at all is allowed, that of an absent peer. */
static inline uint32_t wire_denied(const struct hca_qp *qp) {
  return qp->policy.sends != 0 ? TESSERA_VERBS_STATUS_REM_ACCESS_ERR
                               : TESSERA_VERBS_STATUS_RETRY_EXC_ERR;
}

/* Whether a request with this verbs opcode from the peer of `qp` may be executed. Any packet but
 * the last of a WRITE counts as a plain WRITE: see above. */
static inline bool wire_may_respond(const struct hca_qp *qp, uint32_t opcode) {
  return hca_allowed(qp->policy.receives, hca_verbs_of(opcode));
}

#endif
