/* Admission of received packets: checks each new or held packet and passes it to the code for
 * its transport. */
#include <string.h>

#include "wire/wire.h"
#include "requests/work.h"

/* Find the queue pair that a packet is addressed to; its transport must match, and the payload
 * must not exceed the path MTU. */
static struct hca_qp *target(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                             const struct wire_packet *packet) {
  struct hca_qp *qp = wire_target(hca, wire, path, packet->qpn, packet->pkey);
  if (!qp) return NULL;
  const unsigned transport = wire_is_unreliable(qp) ? WIRE_UC : WIRE_RC;
  if (packet->opcode >> 5 != transport || packet->payload_bytes > qp->wired->mtu) {
    wire->counts.malformed++;
    return NULL;
  }
  return qp;
}

void hca_wire_take(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                   unsigned part, const uint8_t *data, size_t bytes) {
  struct wire_packet packet;
  const bool group = hca_is_group(path->destination);
  wire->counts.received++;
  wire->counts.received_bytes += bytes;
  if (bytes && data[0] == WIRE_CNP && !group) {
    wire_congestion_take(hca, wire, path, data, bytes);
    return;
  }
  if (!wire_parse(&packet, data, bytes)) {
    wire->counts.malformed++;
    return;
  }
  /* A multicast group receives datagrams only, addressed to the multicast QPN (IBTA volume 1,
   * 10.5). */
  if (group && (packet.opcode >> 5 != WIRE_UD || packet.qpn != TESSERA_HCA_MULTICAST_QPN)) {
    wire->counts.malformed++;
    return;
  }
  if (wire_take_mad(wire, path, part, &packet, data, bytes)) return;
  if (packet.opcode >> 5 == WIRE_UD) {
    wire_take_datagram(hca, wire, path, part, &packet, data, bytes);
    return;
  }
  struct hca_qp *qp = target(hca, wire, path, &packet);
  if (!qp) return;
  if (!wire_is_sound(path, part % WIRE_MAX_GSO_ID, data, bytes)) {
    wire->counts.bad_icrc++;
    return;
  }
  if (path->marked) wire_congestion_marked(hca, qp, packet.opcode);
  if (!hca_receives(qp)) {
    wire->counts.not_ready++;
    return;
  }
  if (wire_is_unreliable(qp)) {
    wire_respond_unreliably(hca, qp, &packet);
    return;
  }
  switch (packet.form.kind) {
    case WIRE_SEND:
    case WIRE_WRITE:
    case WIRE_READ:
    case WIRE_ATOMIC:
      wire_respond(hca, qp, &packet);
      break;
    case WIRE_READ_RESPONSE:
    case WIRE_ATOMIC_ACK:
      wire_read_response(hca, qp, &packet);
      break;
    case WIRE_ACK:
      wire_acknowledged(hca, qp, &packet);
      break;
    default:
      wire->counts.malformed++;
  }
}

static void carry_out_known(struct hca *hca, struct hca_wire *wire) {
  struct wire_held *released;
  while ((released = wire_take_known(wire))) {
    for (struct wire_held *held = released; held; held = held->next) {
      wire->counts.received--; /* it was counted on arrival */
      wire->counts.received_bytes -= held->bytes;
      hca_wire_take(hca, wire, &held->path, held->part, held->data, held->bytes);
    }
    wire_held_free(released);
  }
}

void wire_take_evaluated(struct hca *hca) {
  if (!hca->sources_evaluated) return;
  hca->sources_evaluated = false;
  for (struct hca_wire *wire = hca->wires; wire; wire = wire->next) carry_out_known(hca, wire);
}
