/* Responses of a responder: acknowledgements, NAKs, and the data of READs and atomics, in order,
 * as many as there is room for. */
#include "wire/wire.h"

void wire_note(struct hca *hca, struct hca_wired *wired) {
  if (wired->responder.noted) return;
  wired->responder.noted = true;
  wired->next_noted = hca->wire_noted;
  hca->wire_noted = wired;
}

void wire_send_answer(struct hca *hca, struct hca_qp *qp, uint32_t psn, uint8_t syndrome) {
  const struct wire_packet packet = {.opcode = WIRE_ACKNOWLEDGE,
                                     .pkey = wire_pkey(qp),
                                     .qpn = qp->attributes.dest_qpn,
                                     .psn = psn,
                                     .syndrome = syndrome,
                                     .msn = qp->wired->responder.msn};
  wire_begin(hca, qp->wired, &packet);
  wire_end(hca, qp->wired, &packet);
}

void wire_answer(struct hca *hca, struct hca_qp *qp) {
  struct wire_responder *responder = &qp->wired->responder;
  if (!responder->answers || responder->reading_count) return;
  responder->answers = false;
  wire_send_answer(hca, qp, wire_psn_add(responder->psn, WIRE_PSN_MASK), WIRE_SYNDROME_ACK);
}

void wire_will_answer(struct hca *hca, struct hca_qp *qp) {
  qp->wired->responder.answers = true;
  wire_note(hca, qp->wired);
}

unsigned wire_most_answers(const struct hca_qp *qp) {
  const unsigned limit = qp->attributes.max_dest_rd_atomic;
  return limit < WIRE_READS ? limit : WIRE_READS;
}

void wire_add_answer(struct hca *hca, struct hca_qp *qp, struct wire_reading reading) {
  struct wire_responder *responder = &qp->wired->responder;
  const unsigned place = (responder->reading_first + responder->reading_count++) % WIRE_READS;
  responder->reading[place] = reading;
  hca_enqueue(hca, qp);
}

void wire_forget_answers(struct hca_qp *qp, uint32_t psn) {
  struct wire_responder *responder = &qp->wired->responder;
  while (responder->reading_count) {
    const unsigned last = responder->reading_first + responder->reading_count - 1;
    const struct wire_reading *reading = &responder->reading[last % WIRE_READS];
    const uint32_t end =
        wire_psn_add(reading->psn, wire_packets(reading->bytes, qp->wired->mtu));
    if (wire_psn_distance(end, psn) <= 0) break;
    responder->reading_count--;
  }
}

/* Make one packet of a response; false where its memory was removed, in which case the queue
 * pair fails. */
static bool make_answer(struct hca *hca, struct hca_qp *qp, struct wire_reading *reading) {
  const uint32_t mtu = qp->wired->mtu, left = reading->bytes - reading->done;
  const bool first = reading->done == 0, last = left <= mtu;
  struct wire_packet packet = {.pkey = wire_pkey(qp),
                               .qpn = qp->attributes.dest_qpn,
                               .psn = wire_psn_add(reading->psn, reading->done / mtu),
                               .syndrome = WIRE_SYNDROME_ACK,
                               .msn = qp->wired->responder.msn};
  if (reading->atomic) {
    packet.opcode = WIRE_ATOMIC_ACKNOWLEDGE;
    packet.result = reading->address;
    wire_begin(hca, qp->wired, &packet);
    wire_end(hca, qp->wired, &packet);
    reading->done = reading->bytes;
    return true;
  }
  packet.payload_bytes = last ? left : mtu;
  packet.opcode = first && last ? WIRE_READ_RESPONSE_ONLY
                  : first       ? WIRE_READ_RESPONSE_FIRST
                  : last        ? WIRE_READ_RESPONSE_LAST
                                : WIRE_READ_RESPONSE_MIDDLE;
  uint8_t *payload = wire_begin(hca, qp->wired, &packet);
  if (!wire_load(hca, qp, reading->address + reading->done, reading->key, packet.payload_bytes,
                 payload))
    return false;
  wire_end(hca, qp->wired, &packet);
  reading->done += packet.payload_bytes;
  return true;
}

/* Whether a response in progress may continue: tables may have changed since the request. An
 * atomic's result is sent unless policy allows nothing at all. */
static bool may_answer(const struct hca_qp *qp, const struct wire_reading *reading) {
  const uint32_t mask = qp->policy.receives;
  return reading->atomic ? mask != 0 : hca_allowed(mask, TESSERA_VERB_READ);
}

/* Drop the responses that policy denies by now, and all later ones; the peer will request those
 * again. */
static void stop_answers(struct hca *hca, struct hca_qp *qp) {
  struct wire_responder *responder = &qp->wired->responder;
  for (unsigned i = 0; i < responder->reading_count; i++) {
    const struct wire_reading *reading =
        &responder->reading[(responder->reading_first + i) % WIRE_READS];
    if (may_answer(qp, reading)) continue;
    const uint32_t psn = wire_psn_add(reading->psn, reading->done / qp->wired->mtu);
    responder->reading_count = i;
    qp->wired->wire->counts.denied++;
    hca_count_denied(qp->policy.in, qp->policy.receives, TESSERA_VERB_READ);
    if (qp->policy.receives != 0)
      wire_send_answer(hca, qp, psn, WIRE_SYNDROME_NAK | WIRE_NAK_ACCESS);
    return;
  }
}

bool wire_answer_reads(struct hca *hca, struct hca_qp *qp) {
  struct wire_responder *responder = &qp->wired->responder;
  stop_answers(hca, qp);
  struct {
    unsigned place;
    uint32_t done;
  } made[WIRE_BATCH];
  unsigned count = 0, place = responder->reading_first;
  const unsigned end = place + responder->reading_count;
  wire_flush(hca); /* so that the count below covers every unsent packet */
  bool there = true;
  while (place != end && count < WIRE_BATCH) {
    if (wire_pace_holds(hca, qp)) break;
    struct wire_reading *reading = &responder->reading[place % WIRE_READS];
    made[count].place = place;
    made[count].done = reading->done;
    if (!(there = make_answer(hca, qp, reading))) break;
    wire_pace_spend(hca, qp);
    count++;
    if (reading->done == reading->bytes) place++;
  }
  const unsigned unsent = wire_flush(hca);
  if (unsent) {
    place = made[count - unsent].place;
    responder->reading[place % WIRE_READS].done = made[count - unsent].done;
    for (unsigned later = place + 1; later != end; later++)
      responder->reading[later % WIRE_READS].done = 0;
  }
  responder->reading_first = place % WIRE_READS;
  responder->reading_count = end - place;
  if (!there) {
    wire_send_answer(hca, qp, responder->reading[place % WIRE_READS].psn,
                WIRE_SYNDROME_NAK | WIRE_NAK_ACCESS);
    responder->reading_count = 0;
    hca_event(qp->client, TESSERA_VERBS_EVENT_QP_ACCESS_ERR, qp->number);
    hca_fail(hca, qp);
    return false;
  }
  return responder->reading_count != 0;
}

void wire_refuse(struct hca *hca, struct hca_qp *qp, enum wire_nak reason, int event) {
  struct wire_responder *responder = &qp->wired->responder;
  /* earlier requests get their responses first, if these are not too long */
  wire_answer_reads(hca, qp);
  if (qp->attributes.state == TESSERA_VERBS_STATE_ERR) return;
  wire_send_answer(hca, qp, responder->psn, (uint8_t)(WIRE_SYNDROME_NAK | reason));
  responder->answers = false;
  if (event >= 0) hca_event(qp->client, (uint32_t)event, qp->number);
  hca_fail(hca, qp);
}
