/* Requests for which a requester sends nothing: binding and invalidating windows, and requests
 * that are dropped silently. They complete in order: when all earlier requests are complete, and
 * before any later one is sent. */
#include "wire/wire.h"
#include "requests/work.h"

bool wire_end_silent(struct hca *hca, struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  while (requester->tail != requester->head) {
    struct wire_request *request = wire_request_at(requester, requester->tail);
    if (!wire_is_silent(request)) return true;
    qp->work.send = request->send;
    qp->work.bytes = request->bytes;
    uint32_t status = TESSERA_VERBS_STATUS_SUCCESS;
    if (hca_is_own(request->send.opcode)) status = hca_carry_out_own(hca, qp);
    if (status != TESSERA_VERBS_STATUS_SUCCESS) {
      request->status = status; /* and it fails with this status */
      return true;
    }
    if (requester->sending == requester->tail) requester->sending++;
    requester->tail++;
    hca_end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
    const uint32_t state = qp->attributes.state;
    if (state != TESSERA_VERBS_STATE_RTS && state != TESSERA_VERBS_STATE_SQD) return false;
  }
  return true;
}
