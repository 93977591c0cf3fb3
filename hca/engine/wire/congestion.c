/* Congestion control for RoCEv2: DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA
 * Deployments", SIGCOMM 2015), with the notification packets of IBTA annex A17.
 *
 * The network marks packets (ECN). The notification point (receiver) sends the sender a CNP, at
 * most one per queue pair in 50 us. The reaction point (sender) cuts its rate and then raises it
 * by itself: first half-way back to the previous rate, then in small steps, then in larger ones. */
#define _GNU_SOURCE
#include <string.h>

#include "base/clock.h"
#include "wire/wire.h"

enum {
  NOTIFY_NS = 50000,          /* N: time between notifications for one queue pair */
  /* how many CNPs may be read at once, because this engine may have waited for a CPU */
  BUNCH = 5,
  CNP_PAYLOAD_BYTES = 16,     /* zeros */
  CNP_BYTES = WIRE_BTH_BYTES + CNP_PAYLOAD_BYTES + WIRE_ICRC_BYTES,
  MARKS = 4,                  /* offset of FECN and BECN in BTH */
  BACKWARD = 0x40,            /* BECN */
};

/* Whether a packet counts as load. Acknowledgements do not: they are few, and their sender
 * cannot send fewer. */
static bool is_load(uint8_t opcode) {
  const unsigned kind = wire_form_of(opcode).kind;
  return kind == WIRE_SEND || kind == WIRE_WRITE || kind == WIRE_READ_RESPONSE;
}

void wire_congestion_marked(struct hca *hca, struct hca_qp *qp, uint8_t opcode) {
  struct wire_congestion *congestion = &qp->wired->congestion;
  if (!hca_receives(qp) || !is_load(opcode)) return;
  qp->wired->wire->counts.np_ecn_marked++;
  const uint64_t now_ns = hca_now_ns();
  if (congestion->notified_ns && now_ns - congestion->notified_ns < NOTIFY_NS) return;
  congestion->notified_ns = now_ns;
  const struct wire_packet packet = {.opcode = WIRE_CNP,
                                     .pkey = wire_pkey(qp),
                                     .qpn = qp->attributes.dest_qpn,
                                     .payload_bytes = CNP_PAYLOAD_BYTES};
  uint8_t *payload = wire_begin(hca, qp->wired, &packet);
  payload[MARKS - WIRE_BTH_BYTES] = BACKWARD;
  memset(payload, 0, CNP_PAYLOAD_BYTES);
  wire_end(hca, qp->wired, &packet);
  qp->wired->wire->counts.np_cnp_sent++;
}

static struct hca_qp *target(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                             const uint8_t *data, size_t bytes) {
  if (bytes != CNP_BYTES || data[1] & 0x3F || !(data[MARKS] & BACKWARD)) {
    wire->counts.malformed++;
    return NULL;
  }
  const uint32_t qpn = (uint32_t)data[5] << 16 | (uint32_t)data[6] << 8 | data[7];
  const uint16_t pkey = (uint16_t)(data[2] << 8 | data[3]);
  struct hca_qp *qp = wire_target(hca, wire, path, qpn, pkey);
  if (!qp) return NULL;
  if (!wire_is_sound(path, 0, data, bytes)) {
    wire->counts.bad_icrc++;
    return NULL;
  }
  if (!hca_receives(qp)) {
    wire->counts.not_ready++;
    return NULL;
  }
  return qp;
}

void wire_congestion_take(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                          const uint8_t *data, size_t bytes) {
  struct hca_qp *qp = target(hca, wire, path, data, bytes);
  if (!qp) return;
  struct wire_congestion *congestion = &qp->wired->congestion;
  const uint64_t now_ns = hca_now_ns();
  hca_charge(hca, (uint64_t)WIRE_STEP_COST * wire_congestion_advance(congestion, now_ns));
  /* A conforming notification point sends at most that many, and at most one for each packet that
   * it received: ignore the rest. */
  if (congestion->sent == 0 || congestion->next_cut_ns > now_ns + (BUNCH - 1) * NOTIFY_NS) {
    wire->counts.rp_cnp_ignored++;
    return;
  }
  congestion->sent--;
  if (congestion->next_cut_ns < now_ns) congestion->next_cut_ns = now_ns;
  congestion->next_cut_ns += NOTIFY_NS;
  wire->counts.rp_cnp_handled++;
  wire_congestion_cut(congestion, now_ns);
}
