/* Scatter-gather lists: their total size, their validity, and the memory at a position. */
#include "requests/work.h"

uint64_t hca_sum(const tessera_hca_sge *sges, unsigned count) {
  uint64_t bytes = 0;
  for (unsigned i = 0; i < count; i++) bytes += sges[i].bytes;
  return bytes;
}

bool hca_all_valid(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                      unsigned count, uint32_t access) {
  for (unsigned i = 0; i < count; i++) {
    if (sges[i].bytes == 0) continue;
    if (!hca_region_of(hca, qp, sges[i].lkey, sges[i].address, sges[i].bytes, access)) return false;
  }
  return true;
}

/* Return the memory at a cursor; NULL where its region was removed. Empty elements are skipped. */
uint8_t *hca_under(struct hca *hca, const struct hca_qp *qp, struct hca_cursor *cursor,
                      uint32_t access, uint64_t *bytes) {
  while (cursor->index < cursor->count && cursor->offset == cursor->sges[cursor->index].bytes) {
    cursor->index++;
    cursor->offset = 0;
  }
  if (cursor->index >= cursor->count) return NULL;
  const tessera_hca_sge *sge = &cursor->sges[cursor->index];
  const uint64_t address = sge->address + cursor->offset;
  const uint32_t left = sge->bytes - cursor->offset;
  const struct hca_region *region = hca_region_of(hca, qp, sge->lkey, address, left, access);
  if (!region) return NULL;
  uint8_t *memory = hca_region_at(region, address, bytes);
  if (*bytes > left) *bytes = left;
  return memory;
}
