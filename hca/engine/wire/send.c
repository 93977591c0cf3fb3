/* Transmission of packets to UDP sockets, in batches (sendmmsg, UDP_SEGMENT). */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/wire.h"
#include "packets/names.h"

enum { MAX_BUFFER = 65535 - 40 - 8 };

/* Used by the engine's thread only. */
static _Thread_local struct {
  struct mmsghdr messages[WIRE_BATCH];
  struct iovec vectors[WIRE_BATCH];
  union wire_name names[WIRE_BATCH];
  union wire_control controls[WIRE_BATCH];
  bool several[WIRE_BATCH]; /* the buffer contains several packets */
} scratch;

socklen_t wire_name_of(const struct hca_wire *wire, const uint8_t *gid, union wire_name *name) {
  if (wire_is_ipv4(gid)) {
    name->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(WIRE_PORT)};
    memcpy(&name->v4.sin_addr, gid + 12, 4);
    return sizeof name->v4;
  }
  name->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
                                   .sin6_port = htons(WIRE_PORT),
                                   .sin6_scope_id = wire->scope};
  memcpy(&name->v6.sin6_addr, gid, 16);
  return sizeof name->v6;
}

uint8_t *wire_begin(struct hca *hca, struct hca_wired *wired, const struct wire_packet *packet) {
  struct wire_batch *batch = hca->wire_batch;
  (void)wired;
  if (batch->count == WIRE_BATCH) wire_flush(hca);
  return wire_put_headers(packet, batch->data + batch->used);
}

void wire_end(struct hca *hca, struct hca_wired *wired, const struct wire_packet *packet) {
  struct wire_batch *batch = hca->wire_batch;
  const uint32_t header_bytes = wire_header_bytes(packet->opcode);
  uint8_t *data = batch->data + batch->used;
  uint8_t *end = wire_put_padding(data + header_bytes + packet->payload_bytes,
                                  packet->payload_bytes);
  const uint32_t bytes = (uint32_t)(end - data) + WIRE_ICRC_BYTES;
  batch->out[batch->count++] = (struct wire_out){
      wired, batch->used, bytes, packet->opcode,
      wired->qp ? wire_tos(hca, wired->qp, packet->opcode) : wired->tos};
  batch->used += bytes;
  hca_charge(hca, bytes + HCA_PACKET_COST);
}

/* Return how many packets from `first` on are sent as one buffer, which the kernel segments:
 * they have the same opcode and destination, and all but the last have the same size. So a
 * filter on the path that inspects only the first packet, such as an nftables rule, is right for
 * all. */
static unsigned count_coalesced(const struct wire_batch *batch, unsigned first) {
  const struct wire_out *head = &batch->out[first];
  if (!head->wired->wire->segments) return 1;
  uint32_t bytes = head->bytes;
  unsigned count = 1;
  for (; first + count < batch->count && count < WIRE_MAX_GSO_ID; count++) {
    const struct wire_out *next = &batch->out[first + count];
    if (next->wired != head->wired || next->opcode != head->opcode || next->tos != head->tos) break;
    if (next->bytes > head->bytes) break;
    if ((bytes += next->bytes) > MAX_BUFFER) break;
    if (next->bytes < head->bytes) return count + 1;
  }
  return count;
}

/* Add ancillary data to a message. */
static void add_control(struct msghdr *header, unsigned message, int level, int type,
                        const void *value, size_t bytes) {
  uint8_t *place = scratch.controls[message].room + header->msg_controllen;
  struct cmsghdr *entry = (struct cmsghdr *)(void *)place;
  *entry = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(bytes)};
  memcpy(CMSG_DATA(entry), value, bytes);
  header->msg_control = &scratch.controls[message];
  header->msg_controllen += CMSG_SPACE(bytes);
}

static void fill(struct wire_batch *batch, unsigned first, unsigned count, unsigned message) {
  const struct wire_out *head = &batch->out[first];
  uint32_t bytes = 0;
  for (unsigned i = 0; i < count; i++) {
    const struct wire_out *out = &batch->out[first + i];
    wire_seal(&head->wired->path, (uint16_t)i, batch->data + out->offset,
              out->bytes - WIRE_ICRC_BYTES);
    bytes += out->bytes;
  }
  scratch.vectors[message] = (struct iovec){batch->data + head->offset, bytes};
  struct msghdr *header = &scratch.messages[message].msg_hdr;
  *header = (struct msghdr){.msg_name = &scratch.names[message],
                            .msg_namelen = wire_name_of(head->wired->wire,
                                                        head->wired->path.destination,
                                                        &scratch.names[message]),
                            .msg_iov = &scratch.vectors[message],
                            .msg_iovlen = 1};
  scratch.several[message] = count > 1;
  if (count > 1) {
    const uint16_t size = (uint16_t)head->bytes;
    add_control(header, message, SOL_UDP, UDP_SEGMENT, &size, sizeof size);
  }
  if (head->tos == WIRE_USUAL_TOS) return;
  const int tos = head->tos;
  if (wire_is_ipv4(head->wired->path.destination))
    add_control(header, message, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
  else
    add_control(header, message, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof tos);
}

/* Send messages through one socket; returns how many are left because its buffer is full. */
static unsigned send_all(struct hca_wire *wire, int fd, unsigned first, unsigned count) {
  while (count) {
    const int sent = sendmmsg(fd, scratch.messages + first, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) return count;
    if (sent < 0 && errno == EINTR) continue;
    /* Any other error means a lost packet: an unreachable address, or a filter. If the buffer was
     * to be segmented, the path may not support that: its packets are sent again, one by one. */
    const unsigned done = sent > 0 ? (unsigned)sent : 1;
    if (sent <= 0) {
      wire->counts.send_errors++;
      if (scratch.several[first]) wire->segments = false;
    }
    first += done;
    count -= done;
  }
  return 0;
}

unsigned wire_flush(struct hca *hca) {
  struct wire_batch *batch = hca->wire_batch;
  unsigned starts[WIRE_BATCH + 1], left = 0;
  for (unsigned first = 0; first < batch->count && !left;) {
    const struct hca_wired *wired = batch->out[first].wired;
    unsigned messages = 0, at = first;
    for (; at < batch->count && batch->out[at].wired->wire == wired->wire &&
           batch->out[at].wired->lane == wired->lane;
         messages++) {
      const unsigned count = count_coalesced(batch, at);
      fill(batch, at, count, messages);
      starts[messages] = at;
      at += count;
    }
    const unsigned unsent = send_all(wired->wire, wired->wire->fds[wired->lane], 0, messages);
    if (unsent) {
      at = starts[messages - unsent];
      left = batch->count - at;
      wired->wire->counts.full++;
    }
    wired->wire->counts.sent += at - first;
    for (; first < at; first++) wired->wire->counts.sent_bytes += batch->out[first].bytes;
  }
  batch->count = 0;
  batch->used = 0;
  return left;
}
