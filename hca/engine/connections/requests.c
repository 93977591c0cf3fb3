/* The requester's send path: takes requests out of the ring and makes their packets. */
#include <string.h>

#include "wire/wire.h"
#include "wire/policy.h"
#include "requests/work.h"

/* in flight: half of the range in which PSNs are comparable, with a margin */
enum { MOST_PSNS = 1 << 22 };

void wire_take_requests(struct hca *hca, struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  for (;;) {
    const uint32_t there = hca_pending(hca, qp, &qp->page->send_head, qp->send_tail,
                                            qp->send_count);
    const uint32_t under_way = requester->head - requester->tail;
    if (qp->attributes.state != TESSERA_VERBS_STATE_RTS) return;
    if (there <= under_way || under_way == WIRE_REQUESTS) return;
    if (under_way && wire_request_at(requester, requester->head - 1)->status !=
                         TESSERA_VERBS_STATUS_SUCCESS)
      return;
    hca_charge(hca, HCA_REQUEST_COST);
    struct wire_request *request = wire_request_at(requester, requester->head);
    qp->work.send = qp->send_slots[(qp->send_tail + under_way) & (qp->send_count - 1)];
    qp->work.bytes = 0;
    uint32_t status = hca_check_local(hca, qp);
    bool silent = hca_is_own(qp->work.send.opcode);
    if (wire_is_unreliable(qp) && !silent &&
        !tessera_is_one_of(TESSERA_OPERATIONS_WIRED_UC, qp->work.send.opcode))
      status = TESSERA_VERBS_STATUS_LOC_QP_OP_ERR; /* IBTA volume 1, table 38: no such opcode */
    const uint32_t verbs =
        wire_verbs_of(qp->work.send.opcode, qp->work.bytes, qp->wired->mtu);
    if (status == TESSERA_VERBS_STATUS_SUCCESS && !silent && !wire_may_request(qp, verbs)) {
      hca_count_denied(qp->policy.out, qp->policy.sends, verbs);
      /* no error: a sender over an unreliable connection gets none */
      silent = wire_is_unreliable(qp);
      if (!silent) status = wire_denied(qp);
    }
    const bool expects_reply = hca_is_answered(qp->work.send.opcode);
    if (status == TESSERA_VERBS_STATUS_SUCCESS && expects_reply &&
        qp->attributes.max_rd_atomic == 0)
      status = TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
    const bool sent = status == TESSERA_VERBS_STATUS_SUCCESS && !silent;
    uint32_t packets = sent ? wire_packets(qp->work.bytes, qp->wired->mtu) : 0;
    const uint32_t taken =
        (uint32_t)wire_psn_distance(requester->free_psn, requester->oldest_psn);
    if (under_way && taken + packets > MOST_PSNS) return;
    /* This engine's predecessor had responses beyond that PSN: the program has changed a request
     * after posting it. */
    if (packets && wire_psn_distance(wire_psn_add(requester->free_psn, packets),
                                     requester->oldest_psn) <= 0) {
      status = TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
      packets = 0;
    }
    *request = (struct wire_request){.send = qp->work.send,
                                     .status = status,
                                     .bytes = qp->work.bytes,
                                     .first_psn = requester->free_psn,
                                     .packets = packets};
    requester->free_psn = wire_psn_add(requester->free_psn, packets);
    requester->head++;
  }
}

static struct wire_packet headers(const struct hca_qp *qp, uint32_t psn) {
  return (struct wire_packet){
      .pkey = wire_pkey(qp), .qpn = qp->attributes.dest_qpn, .psn = psn};
}

/* Request an atomic, or the next part of a READ. Returns how many packets the response has; 0:
 * it must wait. A repeated READ is split at the same positions, so that for the peer each
 * request is either entirely new or entirely a repetition. */
static uint32_t make_read_or_atomic(struct hca *hca, struct hca_qp *qp,
                                    const struct wire_request *request, uint32_t under_way) {
  struct wire_requester *requester = &qp->wired->requester;
  const unsigned limit = qp->attributes.max_rd_atomic < WIRE_READS ? qp->attributes.max_rd_atomic
                                                                   : WIRE_READS;
  if (requester->read_count >= limit) return 0;
  const uint32_t psn = requester->next_psn, mtu = qp->wired->mtu;
  if (!wire_is_read(request)) {
    struct wire_packet packet = wire_make_atomic(&request->send);
    packet.pkey = wire_pkey(qp);
    packet.qpn = qp->attributes.dest_qpn;
    packet.psn = psn;
    wire_begin(hca, qp->wired, &packet);
    wire_end(hca, qp->wired, &packet);
    requester->read_ends[requester->read_count++] = wire_psn_add(psn, 1);
    return 1;
  }
  const uint32_t done = (uint32_t)wire_psn_distance(psn, request->first_psn);
  const uint32_t part = requester->room / 2;
  uint32_t packets = part - done % part;
  if (packets > request->packets - done) packets = request->packets - done;
  if (under_way && under_way + packets > requester->window) return 0;
  const uint32_t left = request->bytes - done * mtu;
  struct wire_packet packet = headers(qp, psn);
  packet.opcode = wire_code_of(request->send.opcode, true, true);
  packet.acknowledge = true;
  packet.address = request->send.remote_address + (uint64_t)done * mtu;
  packet.key = request->send.remote_key;
  packet.bytes = packets * mtu < left ? packets * mtu : left;
  wire_begin(hca, qp->wired, &packet);
  wire_end(hca, qp->wired, &packet);
  requester->read_ends[requester->read_count++] = wire_psn_add(psn, packets);
  return packets;
}

/* Make the next packet of a message; false where its memory was removed. */
static bool make(struct hca *hca, struct hca_qp *qp, struct wire_request *request, uint32_t room) {
  const struct wire_requester *requester = &qp->wired->requester;
  const uint32_t psn = requester->next_psn, mtu = qp->wired->mtu;
  const uint32_t place = (uint32_t)wire_psn_distance(psn, request->first_psn);
  const uint32_t offset = place * mtu, left = request->bytes - offset;
  const bool first = place == 0, last = place == request->packets - 1;
  struct wire_packet packet = headers(qp, psn);
  const bool unreliable = wire_is_unreliable(qp);
  packet.opcode = wire_code_of(request->send.opcode, first, last);
  if (unreliable) packet.opcode |= WIRE_UC << 5;
  packet.solicited = last && (request->send.flags & TESSERA_VERBS_SEND_SOLICITED);
  packet.acknowledge = !unreliable && (last || room == 1 || (psn & 15) == 0);
  packet.address = request->send.remote_address;
  packet.key = request->send.remote_key;
  packet.bytes = request->bytes;
  packet.immediate = packet.invalidate_key = request->send.immediate;
  packet.payload_bytes = left < mtu ? left : mtu;
  uint8_t *payload = wire_begin(hca, qp->wired, &packet);
  if (!wire_gather(hca, qp, &request->send, offset, packet.payload_bytes, payload)) return false;
  wire_end(hca, qp->wired, &packet);
  return true;
}

uint32_t wire_make_next(struct hca *hca, struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  if (requester->sending == requester->head) return 0;
  struct wire_request *request = wire_request_at(requester, requester->sending);
  if (request->status != TESSERA_VERBS_STATUS_SUCCESS || wire_is_silent(request)) return 0;
  const uint32_t under_way =
      (uint32_t)wire_psn_distance(requester->next_psn, requester->oldest_psn);
  if (under_way >= requester->window) return 0;
  const bool fenced = request->send.flags & TESSERA_VERBS_SEND_FENCE;
  if (fenced && requester->read_count && requester->next_psn == request->first_psn) return 0;
  if (!wire_may_request(qp, wire_verbs_of(request->send.opcode, request->bytes, qp->wired->mtu))) {
    wire_deny(hca, qp, request); /* policy has changed since the request was taken */
    return 0;
  }
  if (wire_is_held_back(qp)) return 0;
  if (wire_is_answered(request)) {
    const uint32_t packets = make_read_or_atomic(hca, qp, request, under_way);
    if (packets) wire_spend(qp, request, packets);
    return packets;
  }
  if (make(hca, qp, request, requester->window - under_way)) {
    wire_spend(qp, request, 1);
    return 1;
  }
  request->status = TESSERA_VERBS_STATUS_LOC_PROT_ERR;
  return 0;
}
