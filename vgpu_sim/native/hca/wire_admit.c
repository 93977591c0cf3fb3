/* Which packets are let in, and who carries them out. */
#include <string.h>

#include "wire.h"

/* The queue pair that a packet may be for: its address and its peer's are those of the packet. */
static struct hca_qp *target(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                             const struct wire_packet *packet) {
  struct hca_qp *qp = hca_table_get(&hca->qps, packet->qpn);
  if (!qp || !qp->wired || qp->wired->wire != wire) {
    wire->counts.unknown_qp++;
    return NULL;
  }
  if (memcmp(path->source, qp->wired->path.destination, sizeof path->source) != 0) {
    wire->counts.wrong_source++;
    return NULL;
  }
  if (!wire_pkeys_match(packet->pkey, wire_pkey(qp))) {
    wire->counts.bad_pkey++;
    return NULL;
  }
  if (packet->opcode >> 5 != WIRE_RC || packet->payload_bytes > qp->wired->mtu) {
    wire->counts.malformed++;
    return NULL;
  }
  return qp;
}

void hca_wire_take(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                   unsigned part, const uint8_t *data, size_t bytes) {
  struct wire_packet packet;
  wire->counts.received++;
  if (!wire_parse(&packet, data, bytes)) {
    wire->counts.malformed++;
    return;
  }
  if (wire_take_mad(wire, path, part, &packet, data, bytes)) return;
  struct hca_qp *qp = target(hca, wire, path, &packet);
  if (!qp) return;
  if (!wire_is_sound(path, part % WIRE_MAX_GSO_ID, data, bytes)) {
    wire->counts.bad_icrc++;
    return;
  }
  if (!hca_receives(qp)) {
    wire->counts.not_ready++;
    return;
  }
  switch (packet.form.kind) {
    case WIRE_SEND:
    case WIRE_WRITE:
    case WIRE_READ:
      wire_respond(hca, qp, &packet);
      break;
    case WIRE_READ_RESPONSE:
      wire_read_response(hca, qp, &packet);
      break;
    case WIRE_ACK:
      wire_acknowledged(hca, qp, &packet);
      break;
    default:
      wire->counts.malformed++;
  }
}
