/* UD receive path: each datagram is one packet and is never acknowledged. */
#include <string.h>

#include "requests/work.h"

enum { IPV4_BYTES = 20, HOP_LIMIT = 64, UDP = 17 };

static bool is_ipv4(const uint8_t *gid) {
  static const uint8_t PREFIX[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(gid, PREFIX, sizeof PREFIX) == 0;
}

static uint16_t checksum(const uint8_t *header) {
  uint32_t sum = 0;
  for (unsigned i = 0; i < IPV4_BYTES; i += 2) sum += (uint32_t)(header[i] << 8 | header[i + 1]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)~sum;
}

static void put16(uint8_t *at, uint32_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

void hca_write_grh(uint8_t *header, const uint8_t *source, const tessera_hca_ah_create *path,
                   uint32_t bytes) {
  const uint32_t payload = 8 + 12 + 8 + bytes + 4;
  const uint8_t hops = path->hop_limit ? path->hop_limit : HOP_LIMIT;
  memset(header, 0, TESSERA_HCA_GRH_BYTES);
  if (is_ipv4(source) && is_ipv4(path->dgid)) {
    uint8_t *ip = header + TESSERA_HCA_GRH_BYTES - IPV4_BYTES;
    ip[0] = 0x45;
    ip[1] = path->traffic_class;
    put16(ip + 2, IPV4_BYTES + payload);
    ip[6] = 0x40; /* don't fragment */
    ip[8] = hops;
    ip[9] = UDP;
    memcpy(ip + 12, source + 12, 4);
    memcpy(ip + 16, path->dgid + 12, 4);
    put16(ip + 10, checksum(ip));
    return;
  }
  header[0] = (uint8_t)(0x60 | path->traffic_class >> 4);
  header[1] = (uint8_t)(path->traffic_class << 4 | (path->flow_label >> 16 & 0xf));
  put16(header + 2, path->flow_label & 0xffff);
  put16(header + 4, payload);
  header[6] = UDP;
  header[7] = hops;
  memcpy(header + 8, source, 16);
  memcpy(header + 24, path->dgid, 16);
}

bool hca_scatter_datagram(struct hca *hca, struct hca_qp *peer, const uint8_t *from,
                          uint32_t bytes) {
  struct hca_cursor cursor = {peer->held.sges, peer->held.sge_count, 0, 0};
  for (uint32_t done = 0; done < bytes;) {
    uint64_t part = 0;
    uint8_t *there = hca_under(hca, peer, &cursor, TESSERA_VERBS_ACCESS_LOCAL_WRITE, &part);
    if (!there) return false;
    if (part > bytes - done) part = bytes - done;
    if (!hca_copy(there, from + done, part)) return false;
    done += (uint32_t)part;
    cursor.offset += (uint32_t)part;
  }
  return true;
}

void hca_deliver_datagram(struct hca *hca, struct hca_qp *peer,
                          const struct hca_datagram *datagram) {
  if (peer->type != TESSERA_VERBS_QP_TYPE_UD || !hca_receives(peer)) return;
  if (datagram->qkey != peer->attributes.qkey || hca_take(hca, peer) != HCA_TAKEN) return;
  const uint32_t bytes = TESSERA_HCA_GRH_BYTES + datagram->bytes;
  uint32_t status = TESSERA_VERBS_STATUS_SUCCESS;
  if (peer->held.sge_count > TESSERA_HCA_MAX_SGE)
    status = TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
  else if (hca_sum(peer->held.sges, peer->held.sge_count) < bytes)
    return; /* the receive request stays for a datagram that fits */
  else if (!hca_scatter_datagram(hca, peer, hca->datagram, bytes))
    status = TESSERA_VERBS_STATUS_LOC_PROT_ERR;
  peer->holds = false;
  hca_finish(hca, peer, peer->recv_cq,
             (tessera_hca_cqe){.id = peer->held.id,
                               .status = status,
                               .opcode = TESSERA_VERBS_DONE_RECV,
                               .bytes = bytes,
                               .immediate = datagram->has_immediate ? datagram->immediate : 0,
                               .source_qpn = datagram->source_qpn,
                               .service_level = datagram->service_level,
                               .flags = TESSERA_VERBS_WC_FLAG_GRH |
                                        (datagram->has_immediate ? TESSERA_VERBS_WC_FLAG_WITH_IMM
                                                                 : 0)},
             datagram->solicited);
  if (status != TESSERA_VERBS_STATUS_SUCCESS) hca_fail(hca, peer);
}
