/* Datagrams (UD): one packet, to the queue pairs of one address, acknowledged by nobody. */
#include <string.h>

#include "wire.h"
#include "work.h"

enum { IPV4_BYTES = 20, HOP_LIMIT = 64, UDP = 17 };

static bool is_ipv4(const uint8_t *gid) {
  static const uint8_t PREFIX[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(gid, PREFIX, sizeof PREFIX) == 0;
}

static bool is_multicast(const uint8_t *gid) {
  return gid[0] == 0xff || (is_ipv4(gid) && gid[12] >> 4 == 0xe);
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
    ip[6] = 0x40; /* not to be fragmented */
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

/* Copies the request's data into the engine's own buffer, after the header. */
static bool gather(struct hca *hca, struct hca_qp *qp) {
  struct hca_work *work = &qp->work;
  while (work->done < work->bytes) {
    uint64_t bytes = 0;
    const uint8_t *here = hca_local_memory(hca, qp, &bytes);
    if (!here) return false;
    if (!hca_copy(hca->datagram + TESSERA_HCA_GRH_BYTES + work->done, here, bytes)) return false;
    work->done += (uint32_t)bytes;
    work->local.offset += (uint32_t)bytes;
  }
  return true;
}

static bool scatter(struct hca *hca, struct hca_qp *peer, uint32_t bytes) {
  struct hca_cursor cursor = {peer->held.sges, peer->held.sge_count, 0, 0};
  for (uint32_t done = 0; done < bytes;) {
    uint64_t part = 0;
    uint8_t *there = hca_under(hca, peer, &cursor, TESSERA_VERBS_ACCESS_LOCAL_WRITE, &part);
    if (!there) return false;
    if (part > bytes - done) part = bytes - done;
    if (!hca_copy(there, hca->datagram + done, part)) return false;
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
    return; /* the request waits for one that fits */
  else if (!scatter(hca, peer, bytes))
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

/* What the request that `qp` is at says. */
static struct hca_datagram datagram_of(const struct hca_qp *qp, const struct hca_ah *ah) {
  const tessera_hca_send_slot *send = &qp->work.send;
  /* The highest bit asks for the sender's own, which a program without privilege cannot choose. */
  const uint32_t qkey = send->remote_key >> 31 ? qp->attributes.qkey : send->remote_key;
  return (struct hca_datagram){.bytes = qp->work.bytes,
                               .qkey = qkey,
                               .immediate = send->immediate,
                               .source_qpn = qp->number,
                               .service_level = ah->path.service_level,
                               .has_immediate = hca_has_immediate(send->opcode),
                               .solicited = send->flags & TESSERA_VERBS_SEND_SOLICITED};
}

static void deliver(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer,
                    const struct hca_ah *ah) {
  const struct hca_datagram datagram = datagram_of(qp, ah);
  if (hca_same_partition(qp, peer)) hca_deliver_datagram(hca, peer, &datagram);
}

static void deliver_to_group(struct hca *hca, struct hca_qp *qp, const struct hca_ah *ah) {
  for (const struct hca_member *member = hca->members; member; member = member->next) {
    if (member->qp == qp && qp->block_self) continue;
    if (memcmp(member->gid, ah->path.dgid, sizeof member->gid) == 0)
      deliver(hca, qp, member->qp, ah);
  }
}

enum hca_step hca_carry_out_datagram(struct hca *hca, struct hca_qp *qp) {
  const tessera_hca_send_slot *send = &qp->work.send;
  const struct hca_ah *ah = hca_table_get(&hca->ahs, send->address_handle);
  if (!ah || ah->client != qp->client || ah->path.pd != qp->pd)
    return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_QP_OP_ERR);
  const enum hca_step admitted = hca_admit_datagram(hca, qp, ah);
  if (admitted != HCA_STEP_AGAIN) return admitted;
  if (!gather(hca, qp)) return hca_fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
  struct hca_wire *wire = NULL;
  if (!is_multicast(ah->path.dgid)) wire = hca_wire_towards(hca, qp->client, &ah->path);
  if (wire) {
    const struct hca_datagram datagram = datagram_of(qp, ah);
    return hca_wire_send_datagram(hca, qp, wire, &ah->path, &datagram);
  }
  hca_write_grh(hca->datagram, qp->client->gids[ah->path.sgid_index], &ah->path, qp->work.bytes);
  if (is_multicast(ah->path.dgid)) {
    deliver_to_group(hca, qp, ah);
  } else {
    struct hca_qp *peer = hca_table_get(&hca->qps, send->remote_qpn & TESSERA_HCA_QPN_MASK);
    if (peer && hca_has_gid(peer->client, ah->path.dgid)) deliver(hca, qp, peer, ah);
  }
  if (!qp->work.active) return HCA_STEP_FAILED; /* it was its own receiver, and failed as such */
  hca_end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
  return HCA_STEP_AGAIN;
}
