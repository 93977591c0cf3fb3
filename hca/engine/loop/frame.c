/* Parser of Ethernet frames that programs write themselves: the header fields that steering
 * rules match.
 *
 * A frame is untrusted. Any frame that could carry RDMA past its policies is recognised here and
 * is dropped: RoCE of either version, and frames that hide their ports (fragments, chains of
 * headers). */
#include <string.h>

#include "requests/work.h"

enum {
  MACS = 12,
  MOST_TAGS = 2,
  MOST_EXTENSIONS = 8,
  ETHER_IPV4 = 0x0800,
  ETHER_IPV6 = 0x86DD,
  ETHER_ROCE_V1 = 0x8915,
  TCP = 6,
  UDP = 17,
  ROCE_PORT = 4791,
};

/* The unread part of a frame. */
struct rest {
  const uint8_t *at;
  uint32_t bytes;
};

static uint32_t read16(const uint8_t *at) { return (uint32_t)(at[0] << 8 | at[1]); }

static bool skip(struct rest *rest, uint32_t bytes) {
  if (bytes > rest->bytes) return false;
  rest->at += bytes;
  rest->bytes -= bytes;
  return true;
}

static bool is_tag(uint32_t ether_type) {
  return ether_type == 0x8100 || ether_type == 0x88A8 || ether_type == 0x9100;
}

/* Read the addresses and VLAN tags; `rest` then begins after the EtherType. */
static bool read_ethernet(struct rest *rest, tessera_hca_frame_fields *fields) {
  if (rest->bytes < MACS + 2) return false;
  memcpy(fields->destination_mac, rest->at, sizeof fields->destination_mac);
  memcpy(fields->source_mac, rest->at + 6, sizeof fields->source_mac);
  skip(rest, MACS);
  for (unsigned tags = 0; is_tag(read16(rest->at)); tags++) {
    if (tags == MOST_TAGS || rest->bytes < 6) return false;
    if (tags == 0) memcpy(fields->vlan, rest->at + 2, sizeof fields->vlan);
    skip(rest, 4);
  }
  memcpy(fields->ether_type, rest->at, sizeof fields->ether_type);
  return skip(rest, 2);
}

static bool read_ipv4(struct rest *rest, tessera_hca_frame_fields *fields) {
  const uint8_t *header = rest->at;
  if (rest->bytes < 20 || header[0] >> 4 != 4 || (header[0] & 15) < 5) return false;
  if (read16(header + 6) & 0x3FFF) return false; /* a fragment */
  fields->traffic_class = header[1];
  fields->hop_limit = header[8];
  fields->protocol = header[9];
  memcpy(fields->source, header + 12, 4);
  memcpy(fields->destination, header + 16, 4);
  return skip(rest, (header[0] & 15u) * 4);
}

/* Skip the extension headers, up to the upper-layer protocol. */
static bool read_extensions(struct rest *rest, tessera_hca_frame_fields *fields) {
  enum { HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, AUTHENTICATION = 51, OPTIONS = 60 };
  for (unsigned i = 0; i <= MOST_EXTENSIONS; i++) {
    const uint8_t kind = fields->protocol;
    if (kind == FRAGMENT) return false;
    if (kind != HOP_BY_HOP && kind != ROUTING && kind != AUTHENTICATION && kind != OPTIONS)
      return true;
    if (rest->bytes < 2) return false;
    const uint32_t units = rest->at[1];
    fields->protocol = rest->at[0];
    if (!skip(rest, kind == AUTHENTICATION ? (units + 2) * 4 : (units + 1) * 8)) return false;
  }
  return false;
}

static bool read_ipv6(struct rest *rest, tessera_hca_frame_fields *fields) {
  const uint8_t *header = rest->at;
  if (rest->bytes < 40 || header[0] >> 4 != 6) return false;
  fields->traffic_class = (uint8_t)(header[0] << 4 | header[1] >> 4);
  fields->flow_label[1] = header[1] & 15;
  memcpy(fields->flow_label + 2, header + 2, 2);
  fields->protocol = header[6];
  fields->hop_limit = header[7];
  memcpy(fields->source, header + 8, 16);
  memcpy(fields->destination, header + 24, 16);
  return skip(rest, 40) && read_extensions(rest, fields);
}

static bool read_ports(const struct rest *rest, tessera_hca_frame_fields *fields) {
  if (fields->protocol != UDP && fields->protocol != TCP) return true;
  if (rest->bytes < 8) return false;
  memcpy(fields->source_port, rest->at, 2);
  memcpy(fields->destination_port, rest->at + 2, 2);
  return fields->protocol == TCP || (read16(rest->at) != ROCE_PORT &&
                                     read16(rest->at + 2) != ROCE_PORT);
}

bool hca_read_frame(const uint8_t *frame, uint32_t bytes, tessera_hca_frame_fields *fields) {
  struct rest rest = {frame, bytes};
  memset(fields, 0, sizeof *fields);
  if (!read_ethernet(&rest, fields)) return false;
  switch (read16(fields->ether_type)) {
    case ETHER_ROCE_V1:
      return false;
    case ETHER_IPV4:
      return read_ipv4(&rest, fields) && read_ports(&rest, fields);
    case ETHER_IPV6:
      return read_ipv6(&rest, fields) && read_ports(&rest, fields);
    default:
      return true;
  }
}
