/* Copies between packets' payloads and registered memory. Regions are looked up for each packet,
 * because they may be removed in between. */
#include <string.h>

#include "wire/wire.h"

static bool move(struct hca *hca, const struct hca_qp *qp, uint64_t address, uint32_t key,
                 uint32_t access, uint32_t bytes, uint8_t *packet, bool store) {
  if (bytes == 0) return true;
  const uint32_t from_peers = TESSERA_VERBS_ACCESS_REMOTE_WRITE | TESSERA_VERBS_ACCESS_REMOTE_READ;
  const struct hca_region *region = access & from_peers
                                        ? hca_reach(hca, qp, key, &address, bytes, access)
                                        : hca_region_of(hca, qp, key, address, bytes, access);
  if (!region) return false;
  while (bytes) {
    uint64_t part;
    uint8_t *memory = hca_region_at(region, address, &part);
    if (!memory) return false;
    if (part > bytes) part = bytes;
    if (!hca_copy(store ? memory : packet, store ? packet : memory, part)) return false;
    address += part;
    packet += part;
    bytes -= (uint32_t)part;
  }
  return true;
}

/* Copy to or from a scatter-gather list, starting at an offset in it. */
static bool move_list(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                      unsigned count, uint32_t offset, uint32_t access, uint32_t bytes,
                      uint8_t *packet, bool store) {
  for (unsigned i = 0; i < count && bytes; i++) {
    if (offset >= sges[i].bytes) {
      offset -= sges[i].bytes;
      continue;
    }
    const uint32_t left = sges[i].bytes - offset, part = left < bytes ? left : bytes;
    if (!move(hca, qp, sges[i].address + offset, sges[i].lkey, access, part, packet, store))
      return false;
    packet += part;
    bytes -= part;
    offset = 0;
  }
  return bytes == 0;
}

bool wire_gather(struct hca *hca, const struct hca_qp *qp, const tessera_hca_send_slot *send,
                 uint32_t offset, uint32_t bytes, uint8_t *to) {
  if (send->flags & TESSERA_VERBS_SEND_INLINE) {
    memcpy(to, send->payload.data + offset, bytes);
    return true;
  }
  return move_list(hca, qp, send->payload.sges, send->sge_count, offset, 0, bytes, to, false);
}

bool wire_scatter(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                  unsigned count, uint32_t offset, const uint8_t *from, uint32_t bytes) {
  return move_list(hca, qp, sges, count, offset, TESSERA_VERBS_ACCESS_LOCAL_WRITE, bytes,
                   (uint8_t *)from, true);
}

bool wire_load(struct hca *hca, const struct hca_qp *qp, uint64_t address, uint32_t key,
               uint32_t bytes, uint8_t *to) {
  return move(hca, qp, address, key, TESSERA_VERBS_ACCESS_REMOTE_READ, bytes, to, false);
}

bool wire_store(struct hca *hca, const struct hca_qp *qp, uint64_t address, uint32_t key,
                const uint8_t *from, uint32_t bytes) {
  return move(hca, qp, address, key, TESSERA_VERBS_ACCESS_REMOTE_WRITE, bytes, (uint8_t *)from,
              true);
}
