/* RoCEv2 packets: headers from BTH to ICRC (IBTA volume 1, chapter 9; annex A17). */
#ifndef HCA_WIRE_PACKET_H
#define HCA_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera_rdma_abi.h"

enum {
  WIRE_PORT = 4791,
  WIRE_BTH_BYTES = 12,
  WIRE_ICRC_BYTES = 4,
  WIRE_MAX_HEADER_BYTES = WIRE_BTH_BYTES + 8 + 28 + 4,
  WIRE_MAX_MTU = 4096,
  WIRE_MAX_PACKET = WIRE_MAX_HEADER_BYTES + WIRE_MAX_MTU + WIRE_ICRC_BYTES,
  WIRE_PSN_MASK = 0xFFFFFF,
  WIRE_MAX_GSO_ID = 64, /* segments of one buffer: their IPv4 identifications differ */
};

enum wire_transport { WIRE_RC = 0, WIRE_UC = 1, WIRE_UD = 3 };

/* Opcodes (their lower five bits), kinds and parts of packets, as listed in rdma/packets.py. */
#define NAMED(name, value, ...) WIRE_##name = value,
enum wire_operation { TESSERA_PACKETS(NAMED) };
enum wire_kind { TESSERA_PACKET_KINDS(NAMED) };
enum wire_part { TESSERA_PACKET_PARTS(NAMED) };
#undef NAMED

struct wire_form {
  uint8_t kind;
  uint8_t operation; /* verbs opcode that a request packet executes; 0 for a response */
  uint16_t parts, services;
};

/* AETH syndromes: acknowledgement, RNR NAK with a timer, NAK with a reason. */
enum {
  WIRE_SYNDROME_ACK = 0x1F, /* unlimited credit */
  WIRE_SYNDROME_RNR = 0x20,
  WIRE_SYNDROME_NAK = 0x60,
  WIRE_SYNDROME_KIND = 0x60,
  WIRE_SYNDROME_VALUE = 0x1F,
};
enum wire_nak { WIRE_NAK_SEQUENCE, WIRE_NAK_INVALID, WIRE_NAK_ACCESS, WIRE_NAK_OPERATION };

struct wire_packet {
  uint8_t opcode;
  bool solicited, acknowledge;
  uint8_t syndrome;
  uint16_t pkey;
  uint32_t qpn, psn, msn;
  uint64_t address; /* of RETH or AtomicETH */
  uint32_t key, bytes;
  uint64_t swap_or_add, compare, result;
  uint32_t immediate; /* in network byte order, as the program set it */
  uint32_t invalidate_key, qkey, source_qpn;
  const uint8_t *payload;
  uint32_t payload_bytes;
  struct wire_form form;
};

/* A packet's source and destination; ports in host byte order. */
struct wire_path {
  uint8_t source[16], destination[16]; /* IPv4 as IPv4-mapped IPv6 */
  uint16_t source_port, destination_port;
  bool marked; /* a received packet has met congestion (ECN) */
};

static inline uint32_t wire_psn_add(uint32_t psn, uint32_t count) {
  return (psn + count) & WIRE_PSN_MASK;
}

/* How far `a` is ahead of `b`: -2^23 to 2^23 - 1. */
static inline int32_t wire_psn_distance(uint32_t a, uint32_t b) {
  return (int32_t)((a - b) << 8) >> 8;
}

/* Describe an opcode; kind WIRE_NOTHING where it is unknown or not valid for its transport. */
struct wire_form wire_form_of(uint8_t opcode);
uint32_t wire_header_bytes(uint8_t opcode);
/* Return the lower five bits of a request packet's opcode, by the packet's position in the
 * message. */
uint8_t wire_code_of(uint32_t operation, bool first, bool last);

/* Parse `bytes` bytes of UDP payload. False where lengths, versions or opcode are invalid; the
 * ICRC is not checked. */
bool wire_parse(struct wire_packet *packet, const uint8_t *data, size_t bytes);
/* Write the headers; returns where the payload follows. */
uint8_t *wire_put_headers(const struct wire_packet *packet, uint8_t *data);
/* Pad a payload that ends at `end`; returns where the ICRC belongs. */
uint8_t *wire_put_padding(uint8_t *end, uint32_t payload_bytes);

/* Compute the ICRC of `bytes` bytes from BTH on, without the ICRC field; `identification` is
 * IPv4's. */
uint32_t wire_icrc(const struct wire_path *path, uint16_t identification, const uint8_t *data,
                   size_t bytes);
void wire_seal(const struct wire_path *path, uint16_t identification, uint8_t *data, size_t bytes);
/* Whether the ICRC is correct. A socket does not report the IPv4 identification: it is 0, or,
 * where the kernel has numbered the segments of a larger buffer, up to WIRE_MAX_GSO_ID - 1;
 * `likely` is tried first. */
bool wire_is_sound(const struct wire_path *path, uint16_t likely, const uint8_t *data,
                   size_t bytes);

bool wire_is_ipv4(const uint8_t *gid);
/* Whether two keys share a partition: the same number, and not both limited. */
static inline bool wire_pkeys_match(uint16_t a, uint16_t b) {
  return ((a ^ b) & 0x7FFF) == 0 && (a & 0x7FFF) != 0 && ((a | b) & 0x8000) != 0;
}

#endif
