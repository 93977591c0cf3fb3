/* Routing: over which wire, and from which of its source ports, packets reach an address, or
 * that the address is local. */
#include <string.h>

#include "wire/wire.h"

/* Map a flow label to a source port as rdma-core's ibv_flow_label_to_udp_sport() does, but to
 * one of the wire's ports. */
unsigned wire_lane_of(const struct hca_wire *wire, uint32_t label, uint32_t own, uint32_t other) {
  label &= 0xFFFFF;
  if (label == 0) {
    const uint64_t pair = (uint64_t)own * other;
    label = (uint32_t)(pair ^ pair >> 20 ^ pair >> 40) & 0xFFFFF;
  }
  return ((label & 0x3FFF) ^ label >> 14) % wire->lanes;
}

bool wire_is_here(const struct hca *hca, const uint8_t *gid) {
  for (const struct hca_wire *wire = hca->wires; wire; wire = wire->next)
    if (memcmp(wire->gid, gid, sizeof wire->gid) == 0) return true;
  for (const struct hca_function *function = hca->functions; function; function = function->next)
    for (unsigned i = 0; i < TESSERA_HCA_GIDS; i++)
      if (memcmp(function->gids[i], gid, sizeof function->gids[i]) == 0) return true;
  return false;
}

struct hca_wire *wire_of(const struct hca *hca, const struct hca_client *client,
                         unsigned sgid_index) {
  if (sgid_index >= TESSERA_HCA_GIDS) return NULL;
  const uint8_t *gid = client->gids[sgid_index];
  for (struct hca_wire *wire = hca->wires; wire; wire = wire->next)
    if (memcmp(wire->gid, gid, sizeof wire->gid) == 0) return wire;
  return NULL;
}

struct hca_wire *hca_wire_towards(const struct hca *hca, const struct hca_client *client,
                                  unsigned sgid_index, const uint8_t *dgid) {
  struct hca_wire *wire = hca->wires ? wire_of(hca, client, sgid_index) : NULL;
  if (!wire || wire_is_ipv4(wire->gid) != wire_is_ipv4(dgid)) return NULL;
  return wire_is_here(hca, dgid) ? NULL : wire;
}
