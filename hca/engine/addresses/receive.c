/* Reception of packets from UDP sockets, in batches (recvmmsg, UDP_GRO). */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>

#include "wire/wire.h"
#include "packets/names.h"

enum { RECEIVE_ROOM = 65536, RECEIVES = 32, LEAST_RECEIVES = 4 };

/* Used by the engine's thread only. */
static _Thread_local struct {
  struct mmsghdr messages[RECEIVES];
  struct iovec vectors[RECEIVES];
  union wire_name names[RECEIVES];
  union wire_control controls[RECEIVES];
} scratch;

static bool source_of(const union wire_name *name, struct wire_path *path) {
  memset(path->source, 0, sizeof path->source);
  if (name->any.sa_family == AF_INET) {
    path->source[10] = path->source[11] = 0xFF;
    memcpy(path->source + 12, &name->v4.sin_addr, 4);
    path->source_port = ntohs(name->v4.sin_port);
    return true;
  }
  if (name->any.sa_family != AF_INET6) return false;
  memcpy(path->source, &name->v6.sin6_addr, 16);
  path->source_port = ntohs(name->v6.sin6_port);
  return true;
}

/* Return the size of the segments that the kernel coalesced (UDP_GRO); the last may be shorter. */
static uint32_t segment_of(struct msghdr *header, uint32_t bytes) {
  for (struct cmsghdr *entry = CMSG_FIRSTHDR(header); entry; entry = CMSG_NXTHDR(header, entry)) {
    if (entry->cmsg_level != SOL_UDP || entry->cmsg_type != UDP_GRO) continue;
    int size;
    memcpy(&size, CMSG_DATA(entry), sizeof size);
    if (size > 0 && (uint32_t)size < bytes) return (uint32_t)size;
  }
  return bytes;
}

/* Whether the network has marked the packet with ECN. The kernel reports it in a byte for IPv4,
 * in an int for IPv6. */
static bool is_marked(struct msghdr *header) {
  for (struct cmsghdr *entry = CMSG_FIRSTHDR(header); entry; entry = CMSG_NXTHDR(header, entry)) {
    int tos = 0;
    if (entry->cmsg_level == IPPROTO_IP && entry->cmsg_type == IP_TOS)
      tos = *CMSG_DATA(entry);
    else if (entry->cmsg_level == IPPROTO_IPV6 && entry->cmsg_type == IPV6_TCLASS)
      memcpy(&tos, CMSG_DATA(entry), sizeof tos);
    if ((tos & WIRE_ECN_MASK) == WIRE_ECN_MARKED) return true;
  }
  return false;
}

/* Receive as many messages as add up to a quantum, assuming the longest size seen last time. */
static unsigned next_count(uint32_t longest) {
  const unsigned count = longest ? HCA_QUANTUM / longest : RECEIVES;
  if (count > RECEIVES) return RECEIVES;
  return count < LEAST_RECEIVES ? LEAST_RECEIVES : count;
}

bool wire_receive(struct hca *hca, struct wire_port *port) {
  struct hca_wire *wire = port->wire;
  const unsigned at_once = port->at_once ? port->at_once : LEAST_RECEIVES;
  uint32_t longest = 0;
  for (unsigned i = 0; i < at_once; i++) {
    scratch.vectors[i] = (struct iovec){hca->wire_room + (size_t)i * RECEIVE_ROOM, RECEIVE_ROOM};
    scratch.messages[i].msg_hdr = (struct msghdr){.msg_name = &scratch.names[i],
                                                  .msg_namelen = sizeof scratch.names[i],
                                                  .msg_iov = &scratch.vectors[i],
                                                  .msg_iovlen = 1,
                                                  .msg_control = &scratch.controls[i],
                                                  .msg_controllen = sizeof scratch.controls[i]};
  }
  hca_charge(hca, HCA_CALL_COST);
  const int count = recvmmsg(port->fd, scratch.messages, at_once, MSG_DONTWAIT, NULL);
  /* Responses reuse the scratch headers, so the needed fields are copied first. */
  struct {
    uint32_t bytes, segment;
    struct wire_path path;
    bool known;
  } came[RECEIVES];
  for (int i = 0; i < count; i++) {
    struct msghdr *header = &scratch.messages[i].msg_hdr;
    came[i].bytes = scratch.messages[i].msg_len;
    if (came[i].bytes > longest) longest = came[i].bytes;
    came[i].segment = segment_of(header, came[i].bytes);
    came[i].known = !(header->msg_flags & MSG_TRUNC) && source_of(&scratch.names[i], &came[i].path);
    memcpy(came[i].path.destination, port->destination, sizeof came[i].path.destination);
    came[i].path.destination_port = WIRE_PORT;
    came[i].path.marked = is_marked(header);
  }
  if (count > 0) port->at_once = next_count(longest);
  for (int i = 0; i < count; i++) {
    const uint8_t *data = hca->wire_room + (size_t)i * RECEIVE_ROOM;
    if (!came[i].known) {
      wire->counts.malformed++;
      continue;
    }
    /* Each coalesced segment is a packet and is admitted separately. */
    for (uint32_t at = 0; at < came[i].bytes; at += came[i].segment) {
      const uint32_t left = came[i].bytes - at;
      hca_charge(hca, HCA_PACKET_COST + (left < came[i].segment ? left : came[i].segment));
      hca_wire_take(hca, wire, &came[i].path, at / came[i].segment, data + at,
                    left < came[i].segment ? left : came[i].segment);
    }
  }
  return count > 0;
}
