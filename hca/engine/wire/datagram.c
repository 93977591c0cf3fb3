/* UD over a wire (IBTA volume 1, 9.8.3): each datagram is one packet with a DETH and is never
 * acknowledged.
 *
 * There is no connection for which policy was evaluated beforehand. So hcad evaluates policy
 * when a sender's first datagram arrives, and the datagram waits for the verdict: see
 * wire/sources.c. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "wire/wire.h"
#include "requests/work.h"

enum { FULL_PAUSE_NS = 100000 }; /* wait while the socket buffer is full */

/* Set the path of the next datagram. A wire has only one path for datagrams, so packets made
 * before are sent first. */
static struct hca_wired *prepare_path(struct hca *hca, struct hca_qp *qp, struct hca_wire *wire,
                                      const tessera_hca_ah_create *path) {
  wire_flush(hca);
  if (!wire->datagrams) wire->datagrams = calloc(1, sizeof *wire->datagrams);
  struct hca_wired *to = wire->datagrams;
  if (!to) return NULL;
  to->wire = wire;
  to->tos = path->traffic_class & ~WIRE_ECN_MASK; /* a datagram's receiver sends no CNP */
  to->lane = wire_lane_of(wire, path->flow_label, qp->number, qp->work.send.remote_qpn);
  to->path = (struct wire_path){.source_port = wire->ports[to->lane],
                                .destination_port = WIRE_PORT};
  memcpy(to->path.source, wire->gid, sizeof wire->gid);
  memcpy(to->path.destination, path->dgid, sizeof path->dgid);
  return to;
}

enum hca_step hca_wire_send_datagram(struct hca *hca, struct hca_qp *qp, struct hca_wire *wire,
                                     const tessera_hca_ah_create *path,
                                     const struct hca_datagram *datagram) {
  struct hca_work *work = &qp->work;
  if (datagram->bytes > wire->mtu)
    return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_LEN_ERR);
  struct hca_wired *to = prepare_path(hca, qp, wire, path);
  unsigned unsent = 1;
  if (to) {
    const unsigned operation = wire_code_of(work->send.opcode, true, true);
    const struct wire_packet packet = {.opcode = (uint8_t)(WIRE_UD << 5 | operation),
                                       .solicited = datagram->solicited,
                                       .pkey = wire_pkey(qp),
                                       .qpn = hca_is_group(path->dgid)
                                                  ? TESSERA_HCA_MULTICAST_QPN
                                                  : work->send.remote_qpn & TESSERA_HCA_QPN_MASK,
                                       .psn = qp->attributes.sq_psn & WIRE_PSN_MASK,
                                       .qkey = datagram->qkey,
                                       .source_qpn = datagram->source_qpn,
                                       .immediate = datagram->immediate,
                                       .payload_bytes = datagram->bytes};
    memcpy(wire_begin(hca, to, &packet), hca->datagram + TESSERA_HCA_GRH_BYTES, datagram->bytes);
    wire_end(hca, to, &packet);
    unsent = wire_flush(hca);
  }
  if (unsent) { /* gather and send it again later */
    work->done = 0;
    work->local = (struct hca_cursor){work->send.payload.sges, work->send.sge_count, 0, 0};
    hca_wait_until(hca, qp, HCA_WAIT_WIRE, hca_now_ns() + FULL_PAUSE_NS);
    return HCA_STEP_WAIT;
  }
  qp->attributes.sq_psn = wire_psn_add(qp->attributes.sq_psn, 1);
  hca_wait_end(hca, qp);
  return HCA_STEP_AGAIN;
}

/* Return the counter for the reason why a queue pair drops a datagram from a wire; NULL: it
 * accepts the datagram. */
static uint64_t *refusal(struct hca_wire *wire, const struct hca_qp *qp,
                         const struct wire_packet *packet) {
  if (!qp || !hca_has_gid(qp->client, wire->gid)) return &wire->counts.unknown_qp;
  if (!wire_pkeys_match(packet->pkey, wire_pkey(qp))) return &wire->counts.bad_pkey;
  if (qp->type != TESSERA_VERBS_QP_TYPE_UD) return &wire->counts.malformed;
  if (packet->qkey != qp->attributes.qkey) return &wire->counts.bad_qkey;
  return hca_receives(qp) ? NULL : &wire->counts.not_ready;
}

/* Return the counter for the reason why a datagram is dropped; NULL: a queue pair accepts it.
 * For a group, the reason is the last member's. */
static uint64_t *drop_reason(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                             const struct wire_packet *packet) {
  if (!hca_is_group(path->destination))
    return refusal(wire, hca_table_get(&hca->qps, packet->qpn), packet);
  /* Datagrams of senders on this node were delivered in memory, under policy. */
  if (wire_is_here(hca, path->source)) return &wire->counts.duplicates;
  uint64_t *why = &wire->counts.unknown_qp;
  const struct hca_member *member = NULL;
  while ((member = hca_next_member(hca, path->destination, member))) {
    uint64_t *its = refusal(wire, member->qp, packet);
    if (!its) return NULL;
    if (its != &wire->counts.unknown_qp) why = its;
  }
  return why;
}

static void deliver(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                    const struct wire_packet *packet) {
  const struct hca_datagram datagram = {
      .bytes = packet->payload_bytes,
      .qkey = packet->qkey,
      .immediate = packet->immediate,
      .source_qpn = packet->source_qpn,
      .has_immediate = packet->form.parts & WIRE_IMMEDIATE,
      .solicited = packet->solicited,
  };
  if (!hca_is_group(path->destination)) {
    hca_deliver_datagram(hca, hca_table_get(&hca->qps, packet->qpn), &datagram);
    return;
  }
  const struct hca_member *member = NULL;
  while ((member = hca_next_member(hca, path->destination, member)))
    if (!refusal(wire, member->qp, packet)) hca_deliver_datagram(hca, member->qp, &datagram);
}

void wire_take_datagram(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                        unsigned part, const struct wire_packet *packet, const uint8_t *data,
                        size_t bytes) {
  uint64_t *why = drop_reason(hca, wire, path, packet);
  if (why) {
    ++*why;
    return;
  }
  if (!wire_is_sound(path, part % WIRE_MAX_GSO_ID, data, bytes)) {
    wire->counts.bad_icrc++;
    return;
  }
  const struct hca_policy *policy = wire_source_of(hca, wire, path, part, data, bytes);
  if (!policy) return;
  /* Policy is checked for each packet, before any of its content is used. */
  if (!hca_allowed(policy->receives, TESSERA_VERB_UD)) {
    wire->counts.denied++;
    hca_count_denied(policy->in, 0, TESSERA_VERB_UD);
    return;
  }
  tessera_hca_ah_create seen = {0}; /* a socket does not report hop limit and traffic class */
  memcpy(seen.dgid, path->destination, sizeof seen.dgid);
  hca_write_grh(hca->datagram, path->source, &seen, packet->payload_bytes);
  memcpy(hca->datagram + TESSERA_HCA_GRH_BYTES, packet->payload, packet->payload_bytes);
  deliver(hca, wire, path, packet);
}
