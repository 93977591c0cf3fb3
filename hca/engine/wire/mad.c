/* Management datagrams of queue pair 1, the General Services Interface (IBTA volume 1, 13.4 and
 * 13.6.1). The engine passes received ones to hcad through a pipe; hcad sends through an API
 * call. The engine does not interpret their content. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "wire/wire.h"
#include "packets/names.h"

enum { GSI_QPN = 1 };
static const uint32_t GSI_QKEY = 0x80010000;

int hca_wire_mads(struct hca *hca, struct hca_wire *wire, int fd) {
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return errno;
  hca_enter(hca);
  const int before = wire->mad_fd;
  wire->mad_fd = own;
  hca_leave(hca);
  if (before >= 0) close(before);
  return 0;
}

/* Return the counter for the reason why a datagram for queue pair 1 is dropped; NULL: hcad gets
 * it. */
static uint64_t *refused(struct hca_wire *wire, const struct wire_path *path, unsigned part,
                         const struct wire_packet *packet, const uint8_t *data, size_t bytes) {
  const bool form = packet->opcode == (WIRE_UD << 5 | WIRE_SEND_ONLY) &&
                    packet->payload_bytes == TESSERA_HCA_MAD_BYTES && packet->qkey == GSI_QKEY &&
                    packet->source_qpn == GSI_QPN;
  if (!form) return &wire->counts.malformed;
  if ((packet->pkey & 0x7FFF) == 0) return &wire->counts.bad_pkey; /* hcad checks the partition */
  if (wire->mad_fd < 0) return &wire->counts.unknown_qp;
  if (!wire_is_sound(path, part % WIRE_MAX_GSO_ID, data, bytes)) return &wire->counts.bad_icrc;
  return NULL;
}

bool wire_take_mad(struct hca_wire *wire, const struct wire_path *path, unsigned part,
                   const struct wire_packet *packet, const uint8_t *data, size_t bytes) {
  if (packet->qpn != GSI_QPN) return false;
  uint64_t *why = refused(wire, path, part, packet, data, bytes);
  if (!why) {
    tessera_hca_mad mad = {.pkey = packet->pkey};
    memcpy(mad.source, path->source, sizeof mad.source);
    memcpy(mad.data, packet->payload, sizeof mad.data);
    /* The write is atomic, being shorter than PIPE_BUF. If hcad does not keep up, the datagram
     * is lost. */
    if (write(wire->mad_fd, &mad, sizeof mad) != sizeof mad) why = &wire->counts.not_ready;
  }
  if (why) ++*why;
  return true;
}

int hca_wire_send_mad(struct hca *hca, struct hca_wire *wire, const uint8_t *gid,
                      const uint8_t *mad, uint16_t pkey) {
  if (wire_is_ipv4(wire->gid) != wire_is_ipv4(gid)) return EAFNOSUPPORT;
  hca_enter(hca);
  const uint32_t psn = wire->mad_psn++ & WIRE_PSN_MASK;
  hca_leave(hca);
  const struct wire_packet packet = {.opcode = WIRE_UD << 5 | WIRE_SEND_ONLY,
                                     .pkey = pkey,
                                     .qpn = GSI_QPN,
                                     .psn = psn,
                                     .qkey = GSI_QKEY,
                                     .source_qpn = GSI_QPN,
                                     .payload_bytes = TESSERA_HCA_MAD_BYTES};
  const unsigned lane = wire->lanes - 1;
  struct wire_path path = {.source_port = wire->ports[lane], .destination_port = WIRE_PORT};
  memcpy(path.source, wire->gid, sizeof path.source);
  memcpy(path.destination, gid, sizeof path.destination);
  uint8_t data[WIRE_MAX_HEADER_BYTES + TESSERA_HCA_MAD_BYTES + WIRE_ICRC_BYTES];
  uint8_t *end = wire_put_headers(&packet, data);
  memcpy(end, mad, TESSERA_HCA_MAD_BYTES);
  end += TESSERA_HCA_MAD_BYTES;
  wire_seal(&path, 0, data, (size_t)(end - data));
  union wire_name name;
  const socklen_t length = wire_name_of(wire, gid, &name);
  const size_t bytes = (size_t)(end - data) + WIRE_ICRC_BYTES;
  const ssize_t sent =
      sendto(wire->fds[lane], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, &name.any, length);
  const int error = sent < 0 ? errno : 0;
  hca_enter(hca);
  if (sent < 0) {
    wire->counts.send_errors++;
  } else {
    wire->counts.sent++;
    wire->counts.sent_bytes += bytes;
  }
  hca_leave(hca);
  return error;
}
