/* Atomics of a reliable connection, at both ends: each is executed once, whatever happens to
 * packets.
 *
 * IBTA volume 1, 9.4.5 (AtomicETH, AtomicAckETH) and 9.7.5.1.3 (responder resources): a repeated
 * atomic is never executed again. The responder keeps as many results as the peer may have
 * atomics in flight, so every result that the peer may request again is available. */
#include "wire/wire.h"
#include "wire/policy.h"
#include "requests/work.h"

struct wire_packet wire_make_atomic(const tessera_hca_send_slot *send) {
  const bool adds = send->opcode == TESSERA_VERBS_OPCODE_ATOMIC_FETCH_AND_ADD;
  return (struct wire_packet){.opcode = wire_code_of(send->opcode, true, true),
                              .acknowledge = true,
                              .address = send->remote_address,
                              .key = send->remote_key,
                              .swap_or_add = adds ? send->compare_add : send->swap,
                              .compare = adds ? 0 : send->compare_add};
}

void wire_keep_result(struct hca_qp *qp, uint32_t psn, uint64_t before) {
  struct wire_results *results = &qp->wired->responder.results;
  const unsigned limit = wire_most_answers(qp);
  results->of[results->next].psn = psn;
  results->of[results->next].before = before;
  results->next = (results->next + 1) % WIRE_READS;
  results->count = results->count < limit ? results->count + 1 : limit;
}

static void answer(struct hca *hca, struct hca_qp *qp, uint32_t psn, uint64_t before) {
  wire_add_answer(hca, qp,
                  (struct wire_reading){
                      .psn = psn, .bytes = sizeof before, .address = before, .atomic = true});
}

/* Find the memory that an atomic addresses; NULL after a NAK. */
static uint64_t *target(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  const uint32_t access = TESSERA_VERBS_ACCESS_REMOTE_ATOMIC;
  uint64_t address = packet->address, contiguous = 0;
  const struct hca_region *region = NULL;
  if (qp->attributes.access & access)
    region = hca_reach(hca, qp, packet->key, &address, sizeof(uint64_t), access);
  uint8_t *at = region ? hca_region_at(region, address, &contiguous) : NULL;
  if (!at) {
    wire_refuse(hca, qp, WIRE_NAK_ACCESS, TESSERA_VERBS_EVENT_QP_ACCESS_ERR);
    return NULL;
  }
  if (packet->address % sizeof(uint64_t) == 0 && (uintptr_t)at % sizeof(uint64_t) == 0 &&
      contiguous >= sizeof(uint64_t))
    return (uint64_t *)(void *)at;
  wire_refuse(hca, qp, WIRE_NAK_INVALID, TESSERA_VERBS_EVENT_QP_REQ_ERR);
  return NULL;
}

void wire_carry_out_atomic(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  if (responder->message != WIRE_NOTHING || responder->reading_count >= wire_most_answers(qp)) {
    qp->wired->wire->counts.out_of_sequence++;
    return;
  }
  uint64_t *at = target(hca, qp, packet), before;
  if (!at) return;
  const uint32_t opcode = wire_opcode_of(packet);
  const bool adds = opcode == TESSERA_VERBS_OPCODE_ATOMIC_FETCH_AND_ADD;
  if (!hca_atomic(at, opcode, adds ? packet->swap_or_add : packet->compare, packet->swap_or_add,
                  &before)) {
    wire_refuse(hca, qp, WIRE_NAK_ACCESS, TESSERA_VERBS_EVENT_QP_ACCESS_ERR);
    return;
  }
  wire_keep_result(qp, packet->psn, before);
  responder->psn = wire_psn_add(responder->psn, 1);
  responder->msn = wire_psn_add(responder->msn, 1);
  responder->refused = false;
  answer(hca, qp, packet->psn, before);
}

void wire_repeat_atomic(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  const struct wire_results *results = &qp->wired->responder.results;
  for (unsigned i = 0; i < results->count; i++) {
    const unsigned at = (results->next + WIRE_READS - 1 - i) % WIRE_READS;
    if (results->of[at].psn != packet->psn) continue;
    wire_forget_answers(qp, packet->psn);
    if (qp->wired->responder.reading_count < WIRE_READS)
      answer(hca, qp, packet->psn, results->of[at].before);
    return;
  }
}
