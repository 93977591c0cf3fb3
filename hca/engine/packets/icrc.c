/* ICRC: CRC-32 over a packet's invariant fields; fields that may change on the path are replaced
 * by ones. */
#include <string.h>

#include "packets/crc.h"
#include "packets/packet.h"

enum {
  LINK_BYTES = 8, /* in place of a link header, which RoCEv2 does not have */
  IPV4_BYTES = 20,
  IPV6_BYTES = 40,
  UDP_BYTES = 8,
  ID_AT = LINK_BYTES + 4,
  ID_BITS = 6, /* log2 of WIRE_MAX_GSO_ID */
};

bool wire_is_ipv4(const uint8_t *gid) {
  static const uint8_t MAPPED[12] = {[10] = 0xFF, [11] = 0xFF};
  return memcmp(gid, MAPPED, sizeof MAPPED) == 0;
}

static void put16(uint8_t *at, size_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

static uint8_t *put_ip(uint8_t *at, const struct wire_path *path, uint16_t identification,
                       size_t udp_bytes) {
  if (wire_is_ipv4(path->source)) {
    at[0] = 0x45;
    put16(at + 2, IPV4_BYTES + udp_bytes);
    put16(at + 4, identification);
    put16(at + 6, 0x4000); /* don't fragment */
    at[9] = 17;
    memcpy(at + 12, path->source + 12, 4);
    memcpy(at + 16, path->destination + 12, 4);
    return at + IPV4_BYTES;
  }
  at[0] = 0x6F;
  put16(at + 4, udp_bytes);
  at[6] = 17;
  memcpy(at + 8, path->source, 16);
  memcpy(at + 24, path->destination, 16);
  return at + IPV6_BYTES;
}

uint32_t wire_icrc(const struct wire_path *path, uint16_t identification, const uint8_t *data,
                   size_t bytes) {
  uint8_t masked[LINK_BYTES + IPV6_BYTES + UDP_BYTES + WIRE_BTH_BYTES];
  memset(masked, 0xFF, sizeof masked);
  const size_t udp_bytes = UDP_BYTES + bytes + WIRE_ICRC_BYTES;
  uint8_t *at = put_ip(masked + LINK_BYTES, path, identification, udp_bytes);
  put16(at, path->source_port);
  put16(at + 2, path->destination_port);
  put16(at + 4, udp_bytes);
  at += UDP_BYTES;
  memcpy(at, data, WIRE_BTH_BYTES);
  at[4] = 0xFF; /* congestion marks */
  at += WIRE_BTH_BYTES;
  const uint32_t state = hca_crc_update(UINT32_MAX, masked, (size_t)(at - masked));
  return ~hca_crc_update(state, data + WIRE_BTH_BYTES, bytes - WIRE_BTH_BYTES);
}

void wire_seal(const struct wire_path *path, uint16_t identification, uint8_t *data, size_t bytes) {
  const uint32_t icrc = wire_icrc(path, identification, data, bytes);
  for (unsigned i = 0; i < WIRE_ICRC_BYTES; i++) data[bytes + i] = (uint8_t)(icrc >> 8 * i);
}

/* Whether two checksums differ in the same way as those of two IPv4 identifications below
 * WIRE_MAX_GSO_ID. The difference is linear in the bits in which the identifications differ. */
static bool is_identification(uint32_t difference, size_t bytes) {
  const size_t after =
      LINK_BYTES + IPV4_BYTES + UDP_BYTES + bytes - (size_t)(ID_AT + 2);
  uint32_t of_bit[ID_BITS], sum = 0;
  for (unsigned bit = 0; bit < ID_BITS; bit++) {
    const uint8_t identification[2] = {0, (uint8_t)(1u << bit)};
    of_bit[bit] = hca_crc_shift(hca_crc_update(0, identification, 2), after);
  }
  for (unsigned i = 1; i < WIRE_MAX_GSO_ID; i++) {
    sum ^= of_bit[__builtin_ctz(i)]; /* a Gray code: each step changes one bit */
    if (sum == difference) return true;
  }
  return false;
}

bool wire_is_sound(const struct wire_path *path, uint16_t likely, const uint8_t *data,
                   size_t bytes) {
  const size_t covered = bytes - WIRE_ICRC_BYTES;
  uint32_t icrc = 0;
  for (unsigned i = 0; i < WIRE_ICRC_BYTES; i++) icrc |= (uint32_t)data[covered + i] << 8 * i;
  const uint32_t difference = icrc ^ wire_icrc(path, likely, data, covered);
  if (difference == 0) return true;
  return wire_is_ipv4(path->source) && is_identification(difference, covered);
}
