/* The responder of an unreliable connection (IBTA volume 1, 9.8): a message arrives whole or not
 * at all, nothing is acknowledged, and no packet makes the queue pair fail.
 *
 * A packet out of sequence drops the message in progress; the next First or Only packet begins
 * another message, whatever its PSN. A PSN shortly before the expected one is a duplicate or a
 * late packet: hardware may treat it as a new message; this engine drops it. */
#include "wire/wire.h"
#include "wire/policy.h"
#include "requests/work.h"

enum { LATE_PSNS = 1 << 12 }; /* more packets than a socket buffer holds */

static void drop(struct hca_qp *qp) { qp->wired->responder.message = WIRE_NOTHING; }

/* Whether there is memory for a packet. A receive request that was taken is kept for the next
 * message. */
static bool begin(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  const unsigned parts = packet->form.parts;
  const bool write = packet->form.kind == WIRE_WRITE;
  if (write && parts & WIRE_FIRST) {
    if (!wire_may_reach(hca, qp, packet, TESSERA_VERBS_ACCESS_REMOTE_WRITE, packet->bytes))
      return false;
    responder->address = packet->address;
    responder->key = packet->key;
    responder->bytes = packet->bytes;
  }
  if (parts & WIRE_FIRST) responder->done = 0;
  if (!(write ? parts & WIRE_IMMEDIATE : parts & WIRE_FIRST)) return true;
  return hca_take(hca, qp) == HCA_TAKEN && qp->held.sge_count <= TESSERA_HCA_MAX_SGE;
}

static bool store(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  const struct wire_responder *responder = &qp->wired->responder;
  const uint32_t bytes = packet->payload_bytes;
  if (packet->form.kind == WIRE_WRITE)
    return wire_store(hca, qp, responder->address + responder->done, responder->key,
                      packet->payload, bytes);
  const tessera_hca_recv_slot *receive = &qp->held;
  return qp->holds &&
         hca_sum(receive->sges, receive->sge_count) >= (uint64_t)responder->done + bytes &&
         wire_scatter(hca, qp, receive->sges, receive->sge_count, responder->done,
                      packet->payload, bytes);
}

void wire_respond_unreliably(struct hca *hca, struct hca_qp *qp,
                             const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  tessera_hca_wire_counts *counts = &qp->wired->wire->counts;
  const unsigned parts = packet->form.parts;
  const int32_t ahead = wire_psn_distance(packet->psn, responder->psn);
  if (ahead < 0 && ahead >= -LATE_PSNS) {
    counts->duplicates++;
    return;
  }
  if (ahead != 0) {
    counts->gaps++;
    drop(qp);
    if (!(parts & WIRE_FIRST)) return;
  }
  responder->psn = wire_psn_add(packet->psn, 1);
  /* Policy is checked for each packet, before any of its content is used. */
  const uint32_t opcode = wire_opcode_of(packet);
  if (!wire_may_respond(qp, opcode)) {
    counts->denied++;
    if (parts & WIRE_LAST)
      hca_count_denied(qp->policy.in, qp->policy.receives, hca_verbs_of(opcode));
    drop(qp);
    return;
  }
  if (parts & WIRE_FIRST) drop(qp); /* the message in progress has lost its Last packet */
  if (!wire_fits(qp, packet)) {
    counts->out_of_sequence++;
    drop(qp);
    return;
  }
  if (!begin(hca, qp, packet) || !store(hca, qp, packet)) {
    drop(qp);
    return;
  }
  responder->done += packet->payload_bytes;
  responder->message = parts & WIRE_LAST ? WIRE_NOTHING : packet->form.kind;
  if (parts & WIRE_LAST && (packet->form.kind == WIRE_SEND || parts & WIRE_IMMEDIATE))
    wire_end_receive(hca, qp, packet, TESSERA_VERBS_STATUS_SUCCESS);
}
