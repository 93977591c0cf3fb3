#include "packets/packet.h"

#include <string.h>

#include "packets/crc.h"

enum {
  RETH_BYTES = 16,
  AETH_BYTES = 4,
  IMMEDIATE_BYTES = 4,
  ATOMIC_ETH_BYTES = 28,
  ATOMIC_RESULT_BYTES = 8,
  DETH_BYTES = 8,
  OPERATIONS = 32,
  MIGRATED = 0x40, /* hardware sets it where automatic path migration is not used */
};

#define FORM(name, code, kind, parts, services, operation) \
  [code] = {kind, operation, parts, services},
static const struct wire_form FORMS[OPERATIONS] = {TESSERA_PACKETS(FORM)};
#undef FORM

#define CODES(name, text, done, verbs, first, middle, last, only) \
  [TESSERA_VERBS_OPCODE_##name] = {{middle, last}, {first, only}},
static const uint8_t CODES_OF[][2][2] = {TESSERA_OPERATIONS(CODES)};
#undef CODES

struct wire_form wire_form_of(uint8_t opcode) {
  const struct wire_form nothing = {0}, form = FORMS[opcode & 31];
  return form.services >> (opcode >> 5) & 1 ? form : nothing;
}

uint8_t wire_code_of(uint32_t operation, bool first, bool last) {
  return CODES_OF[operation][first][last];
}

uint32_t wire_header_bytes(uint8_t opcode) {
  const unsigned parts = wire_form_of(opcode).parts;
  uint32_t bytes = WIRE_BTH_BYTES;
  if (opcode >> 5 == WIRE_UD) bytes += DETH_BYTES;
  if (parts & WIRE_RETH) bytes += RETH_BYTES;
  if (parts & WIRE_ATOMIC_ETH) bytes += ATOMIC_ETH_BYTES;
  if (parts & WIRE_AETH) bytes += AETH_BYTES;
  if (parts & WIRE_ATOMIC_RESULT) bytes += ATOMIC_RESULT_BYTES;
  if (parts & (WIRE_IMMEDIATE | WIRE_INVALIDATE)) bytes += IMMEDIATE_BYTES;
  return bytes;
}

static uint64_t get(const uint8_t **at, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; i++) value = value << 8 | *(*at)++;
  return value;
}

static void put(uint8_t **at, uint64_t value, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0; value >>= 8) (*at)[i] = (uint8_t)value;
  *at += bytes;
}

bool wire_parse(struct wire_packet *packet, const uint8_t *data, size_t bytes) {
  if (bytes < WIRE_BTH_BYTES + WIRE_ICRC_BYTES || bytes > WIRE_MAX_PACKET || bytes % 4 != 0)
    return false;
  *packet = (struct wire_packet){.opcode = data[0], .form = wire_form_of(data[0])};
  const unsigned parts = packet->form.parts;
  const uint32_t header_bytes = wire_header_bytes(data[0]);
  const unsigned padding = data[1] >> 4 & 3, version = data[1] & 15;
  if (packet->form.kind == WIRE_NOTHING || version != 0) return false;
  if (bytes < header_bytes + padding + WIRE_ICRC_BYTES) return false;
  packet->payload = data + header_bytes;
  packet->payload_bytes = (uint32_t)(bytes - header_bytes - padding - WIRE_ICRC_BYTES);
  if (packet->payload_bytes > WIRE_MAX_MTU) return false;
  if (!(parts & WIRE_PAYLOAD) && (packet->payload_bytes != 0 || padding != 0)) return false;
  packet->solicited = data[1] >> 7;
  const uint8_t *at = data + 2;
  packet->pkey = (uint16_t)get(&at, 2);
  at++; /* congestion marks */
  packet->qpn = (uint32_t)get(&at, 3);
  packet->acknowledge = *at++ >> 7;
  packet->psn = (uint32_t)get(&at, 3);
  if (data[0] >> 5 == WIRE_UD) {
    packet->qkey = (uint32_t)get(&at, 4);
    at++;
    packet->source_qpn = (uint32_t)get(&at, 3);
  }
  if (parts & (WIRE_RETH | WIRE_ATOMIC_ETH)) {
    packet->address = get(&at, 8);
    packet->key = (uint32_t)get(&at, 4);
  }
  if (parts & WIRE_RETH) packet->bytes = (uint32_t)get(&at, 4);
  if (parts & WIRE_ATOMIC_ETH) {
    packet->swap_or_add = get(&at, 8);
    packet->compare = get(&at, 8);
  }
  if (parts & WIRE_AETH) {
    packet->syndrome = *at++;
    packet->msn = (uint32_t)get(&at, 3);
  }
  if (parts & WIRE_ATOMIC_RESULT) packet->result = get(&at, 8);
  if (parts & WIRE_IMMEDIATE) memcpy(&packet->immediate, at, 4);
  if (parts & WIRE_INVALIDATE) packet->invalidate_key = (uint32_t)get(&at, 4);
  return true;
}

uint8_t *wire_put_headers(const struct wire_packet *packet, uint8_t *data) {
  const unsigned parts = wire_form_of(packet->opcode).parts;
  uint8_t *at = data;
  *at++ = packet->opcode;
  const unsigned padding = -packet->payload_bytes & 3;
  *at++ = (uint8_t)(packet->solicited << 7 | MIGRATED | padding << 4);
  put(&at, packet->pkey, 2);
  *at++ = 0;
  put(&at, packet->qpn, 3);
  *at++ = (uint8_t)(packet->acknowledge << 7);
  put(&at, packet->psn, 3);
  if (packet->opcode >> 5 == WIRE_UD) {
    put(&at, packet->qkey, 4);
    *at++ = 0;
    put(&at, packet->source_qpn, 3);
  }
  if (parts & (WIRE_RETH | WIRE_ATOMIC_ETH)) {
    put(&at, packet->address, 8);
    put(&at, packet->key, 4);
  }
  if (parts & WIRE_RETH) put(&at, packet->bytes, 4);
  if (parts & WIRE_ATOMIC_ETH) {
    put(&at, packet->swap_or_add, 8);
    put(&at, packet->compare, 8);
  }
  if (parts & WIRE_AETH) {
    *at++ = packet->syndrome;
    put(&at, packet->msn, 3);
  }
  if (parts & WIRE_ATOMIC_RESULT) put(&at, packet->result, 8);
  if (parts & WIRE_IMMEDIATE) {
    memcpy(at, &packet->immediate, 4);
    at += 4;
  }
  if (parts & WIRE_INVALIDATE) put(&at, packet->invalidate_key, 4);
  return at;
}

uint8_t *wire_put_padding(uint8_t *end, uint32_t payload_bytes) {
  const unsigned padding = -payload_bytes & 3;
  memset(end, 0, padding);
  return end + padding;
}
