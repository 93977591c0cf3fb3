/* The responder of a reliable connection: executes packets in order and once, and acknowledges
 * or NAKs them.
 *
 * Packets that break the rules of a message (Middle without First, a wrong length) are dropped
 * and counted: no conforming peer sends them, and a forged packet must have no effect. */
#include <string.h>

#include "wire/wire.h"
#include "wire/policy.h"
#include "requests/work.h"

void wire_responder_begin(struct hca_qp *qp) {
  struct wire_responder *responder = &qp->wired->responder;
  memset(responder, 0, sizeof *responder);
  responder->psn = qp->attributes.rq_psn;
  responder->last_psn = wire_psn_add(responder->psn, WIRE_PSN_MASK);
}

void wire_responder_go_on(struct hca_qp *qp) {
  struct wire_responder *responder = &qp->wired->responder;
  *responder = (struct wire_responder){.psn = responder->psn,
                                       .msn = responder->msn,
                                       .last_psn = wire_psn_add(responder->psn, WIRE_PSN_MASK),
                                       .noted = responder->noted};
}

void wire_end_receive(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet,
                      uint32_t status) {
  struct wire_responder *responder = &qp->wired->responder;
  const bool immediate = packet->form.parts & WIRE_IMMEDIATE;
  const bool invalidates = packet->form.parts & WIRE_INVALIDATE;
  const bool send = packet->form.kind == WIRE_SEND;
  qp->holds = false;
  if (invalidates && status == TESSERA_VERBS_STATUS_SUCCESS)
    hca_invalidate(hca, packet->invalidate_key);
  hca_finish(
      hca, qp, qp->recv_cq,
      (tessera_hca_cqe){
          .id = qp->held.id,
          .status = status,
          .opcode = send ? TESSERA_VERBS_DONE_RECV : TESSERA_VERBS_DONE_RECV_RDMA_WITH_IMM,
          .bytes = responder->done,
          .immediate = invalidates ? packet->invalidate_key : packet->immediate,
          .source_qpn = qp->attributes.dest_qpn,
          .flags = immediate     ? TESSERA_VERBS_WC_FLAG_WITH_IMM
                   : invalidates ? TESSERA_VERBS_WC_FLAG_WITH_INV
                                 : 0},
      packet->solicited);
}

static void refuse_receive(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet,
                           uint32_t status, enum wire_nak reason) {
  wire_end_receive(hca, qp, packet, status);
  wire_refuse(hca, qp, reason, -1);
}

/* Take the next receive request. False: there is no usable one. */
static bool take_receive(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  const enum hca_taken taken = hca_take(hca, qp);
  if (taken == HCA_TAKEN_BROKEN) return false;
  if (taken == HCA_TAKEN_NONE) {
    wire_send_answer(hca, qp, responder->psn,
                     (uint8_t)(WIRE_SYNDROME_RNR | (qp->attributes.min_rnr_timer & 31)));
    responder->answers = false; /* the RNR NAK acknowledges earlier packets */
    return false;
  }
  const tessera_hca_recv_slot *receive = &qp->held;
  if (receive->sge_count > TESSERA_HCA_MAX_SGE) {
    refuse_receive(hca, qp, packet, TESSERA_VERBS_STATUS_LOC_QP_OP_ERR, WIRE_NAK_OPERATION);
    return false;
  }
  if (packet->form.kind != WIRE_SEND) return true; /* the immediate needs no memory */
  if (!hca_all_valid(hca, qp, receive->sges, receive->sge_count,
                      TESSERA_VERBS_ACCESS_LOCAL_WRITE)) {
    refuse_receive(hca, qp, packet, TESSERA_VERBS_STATUS_LOC_PROT_ERR, WIRE_NAK_OPERATION);
    return false;
  }
  return true;
}

bool wire_fits(const struct hca_qp *qp, const struct wire_packet *packet) {
  const struct wire_responder *responder = &qp->wired->responder;
  const unsigned parts = packet->form.parts;
  const bool first = parts & WIRE_FIRST, last = parts & WIRE_LAST;
  const uint32_t mtu = qp->wired->mtu, bytes = packet->payload_bytes;
  if (responder->message != (first ? WIRE_NOTHING : packet->form.kind)) return false;
  if (last ? bytes > mtu || (!first && bytes == 0) : bytes != mtu) return false;
  if (packet->form.kind != WIRE_WRITE)
    return first || bytes <= TESSERA_HCA_MAX_MESSAGE_BYTES - responder->done;
  if (first)
    return packet->bytes <= TESSERA_HCA_MAX_MESSAGE_BYTES &&
           (last ? packet->bytes == bytes : packet->bytes > mtu);
  const uint32_t left = responder->bytes - responder->done;
  return last ? bytes == left : bytes < left;
}

bool wire_may_reach(struct hca *hca, const struct hca_qp *qp, const struct wire_packet *packet,
                    uint32_t access, uint32_t bytes) {
  if ((qp->attributes.access & access) == 0) return false;
  uint64_t address = packet->address;
  return bytes == 0 || hca_reach(hca, qp, packet->key, &address, bytes, access);
}

static bool store(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  const uint32_t bytes = packet->payload_bytes;
  if (packet->form.kind == WIRE_WRITE) {
    if (wire_store(hca, qp, responder->address + responder->done, responder->key, packet->payload,
                   bytes))
      return true;
    wire_refuse(hca, qp, WIRE_NAK_ACCESS, TESSERA_VERBS_EVENT_QP_ACCESS_ERR);
    return false;
  }
  const tessera_hca_recv_slot *receive = &qp->held;
  if (hca_sum(receive->sges, receive->sge_count) < (uint64_t)responder->done + bytes) {
    refuse_receive(hca, qp, packet, TESSERA_VERBS_STATUS_LOC_LEN_ERR, WIRE_NAK_INVALID);
    return false;
  }
  if (wire_scatter(hca, qp, receive->sges, receive->sge_count, responder->done, packet->payload,
                   bytes))
    return true;
  refuse_receive(hca, qp, packet, TESSERA_VERBS_STATUS_LOC_PROT_ERR, WIRE_NAK_OPERATION);
  return false;
}

/* Execute a SEND or WRITE packet that is the next in sequence. */
static void carry_out(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  const unsigned parts = packet->form.parts;
  const bool first = parts & WIRE_FIRST, last = parts & WIRE_LAST;
  const bool write = packet->form.kind == WIRE_WRITE;
  if (first && write) {
    if (!wire_may_reach(hca, qp, packet, TESSERA_VERBS_ACCESS_REMOTE_WRITE, packet->bytes)) {
      wire_refuse(hca, qp, WIRE_NAK_ACCESS, TESSERA_VERBS_EVENT_QP_ACCESS_ERR);
      return;
    }
    responder->address = packet->address;
    responder->key = packet->key;
    responder->bytes = packet->bytes;
  }
  if (parts & WIRE_INVALIDATE && !hca_may_invalidate(hca, qp, packet->invalidate_key)) {
    wire_refuse(hca, qp, WIRE_NAK_ACCESS, TESSERA_VERBS_EVENT_QP_ACCESS_ERR);
    return;
  }
  if (first) responder->done = 0;
  const bool receives = write ? last && (parts & WIRE_IMMEDIATE) : first;
  if (receives && !take_receive(hca, qp, packet)) return;
  if (!store(hca, qp, packet)) return;
  responder->done += packet->payload_bytes;
  responder->message = last ? WIRE_NOTHING : packet->form.kind;
  responder->psn = wire_psn_add(responder->psn, 1);
  responder->refused = false;
  if (packet->acknowledge) wire_will_answer(hca, qp);
  if (!last) return;
  responder->msn = wire_psn_add(responder->msn, 1);
  /* A receive request that a WRITE finds held was taken for another peer's message, and is kept for
   * the next message. */
  if (!write || receives) wire_end_receive(hca, qp, packet, TESSERA_VERBS_STATUS_SUCCESS);
}

static void add_reading(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  wire_add_answer(hca, qp,
                  (struct wire_reading){.psn = packet->psn,
                                        .key = packet->key,
                                        .bytes = packet->bytes,
                                        .address = packet->address});
}

static void read_memory(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  if (responder->message != WIRE_NOTHING || packet->bytes > TESSERA_HCA_MAX_MESSAGE_BYTES ||
      responder->reading_count >= wire_most_answers(qp)) {
    qp->wired->wire->counts.out_of_sequence++;
    return;
  }
  if (!wire_may_reach(hca, qp, packet, TESSERA_VERBS_ACCESS_REMOTE_READ, packet->bytes)) {
    wire_refuse(hca, qp, WIRE_NAK_ACCESS, TESSERA_VERBS_EVENT_QP_ACCESS_ERR);
    return;
  }
  add_reading(hca, qp, packet);
  responder->psn = wire_psn_add(responder->psn, wire_packets(packet->bytes, qp->wired->mtu));
  responder->msn = wire_psn_add(responder->msn, 1);
  responder->refused = false;
}

/* Handle a duplicate: READs get their response again, from this PSN on; other requests are
 * acknowledged. */
static void repeat(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  qp->wired->wire->counts.duplicates++;
  if (packet->form.kind == WIRE_ATOMIC) {
    wire_repeat_atomic(hca, qp, packet);
    return;
  }
  if (packet->form.kind != WIRE_READ) {
    wire_will_answer(hca, qp);
    return;
  }
  if (packet->bytes > TESSERA_HCA_MAX_MESSAGE_BYTES) return;
  const uint32_t packets = wire_packets(packet->bytes, qp->wired->mtu);
  if (wire_psn_distance(responder->psn, packet->psn) < (int32_t)packets) return;
  if (!wire_may_reach(hca, qp, packet, TESSERA_VERBS_ACCESS_REMOTE_READ, packet->bytes)) return;
  wire_forget_answers(qp, packet->psn);
  if (responder->reading_count < WIRE_READS) add_reading(hca, qp, packet);
}

/* Handle a duplicate that current tables deny. If it was executed under other tables, it is
 * acknowledged, because its effect remains; but the peer gets no data. */
static void refuse_again(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  const unsigned kind = packet->form.kind;
  if (kind == WIRE_SEND || kind == WIRE_WRITE)
    wire_will_answer(hca, qp);
  else
    wire_send_answer(hca, qp, packet->psn, WIRE_SYNDROME_NAK | WIRE_NAK_ACCESS);
}

void wire_respond(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_responder *responder = &qp->wired->responder;
  struct hca_wire *wire = qp->wired->wire;
  const int32_t ahead = wire_psn_distance(packet->psn, responder->psn);
  /* A retransmission starts at a lower PSN: any gap from here on is a new one. */
  const bool begun_again = wire_psn_distance(packet->psn, responder->last_psn) < 0;
  responder->last_psn = packet->psn;
  if (ahead > 0) {
    wire->counts.gaps++;
    if (qp->policy.receives == 0) return; /* as below */
    if (responder->refused && !begun_again) return;
    responder->refused = true;
    wire_send_answer(hca, qp, responder->psn, WIRE_SYNDROME_NAK | WIRE_NAK_SEQUENCE);
    return;
  }
  /* Policy is checked for each packet, before any of its content is used. */
  const uint32_t opcode = wire_opcode_of(packet);
  if (!wire_may_respond(qp, opcode)) {
    wire->counts.denied++;
    if (ahead == 0)
      hca_count_denied(qp->policy.in, qp->policy.receives, hca_verbs_of(opcode));
    /* A peer that policy allows nothing gets no response, as from an unused address. */
    if (qp->policy.receives == 0) return;
    if (ahead < 0)
      refuse_again(hca, qp, packet);
    else
      wire_send_answer(hca, qp, responder->psn, WIRE_SYNDROME_NAK | WIRE_NAK_ACCESS);
    return;
  }
  if (ahead < 0) {
    repeat(hca, qp, packet);
  } else if (packet->form.kind == WIRE_READ) {
    read_memory(hca, qp, packet);
  } else if (packet->form.kind == WIRE_ATOMIC) {
    wire_carry_out_atomic(hca, qp, packet);
  } else if (!wire_fits(qp, packet)) {
    wire->counts.out_of_sequence++;
  } else {
    carry_out(hca, qp, packet);
  }
}
