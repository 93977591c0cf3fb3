/* Memory windows: requests bind them to a part of a region and invalidate them. Windows of type
 * 2 are of type 2B: they belong to one queue pair. */
#include "base/internal.h"

enum { OWNERS_BITS = 8 }; /* the owner may choose the lowest bits of a key */

struct hca_window *hca_window_of(const struct hca *hca, uint32_t key) {
  return hca_table_get(&hca->windows, key >> OWNERS_BITS);
}

static bool is_owned(const struct hca_window *window, const struct hca_qp *qp) {
  return window && window->client == qp->client && window->pd == qp->pd;
}

static bool may_bind(const struct hca_qp *qp, const struct hca_region *region, uint64_t access) {
  const uint64_t changing = TESSERA_VERBS_ACCESS_REMOTE_WRITE | TESSERA_VERBS_ACCESS_REMOTE_ATOMIC;
  const uint64_t known = changing | TESSERA_VERBS_ACCESS_REMOTE_READ |
                         TESSERA_VERBS_ACCESS_LOCAL_WRITE | TESSERA_VERBS_ACCESS_ZERO_BASED;
  if (access & ~known || region->client != qp->client || region->pd != qp->pd) return false;
  return !(access & changing) || region->access & TESSERA_VERBS_ACCESS_LOCAL_WRITE;
}

uint32_t hca_bind(struct hca *hca, const struct hca_qp *qp, const tessera_hca_send_slot *send) {
  const uint32_t failed = TESSERA_VERBS_STATUS_MW_BIND_ERR;
  struct hca_window *window = hca_window_of(hca, send->remote_key);
  const uint32_t key = send->immediate;
  if (!is_owned(window, qp) || key >> OWNERS_BITS != window->key >> OWNERS_BITS) return failed;
  if (window->type == TESSERA_VERBS_MW_TYPE_TYPE_2 &&
      (window->bound || window->key != send->remote_key))
    return failed;
  if (send->compare_add == 0) { /* zero bytes: the window is closed */
    window->bound = false;
    window->key = key;
    return TESSERA_VERBS_STATUS_SUCCESS;
  }
  const struct hca_region *region =
      hca_region_of(hca, qp, send->payload.sges[0].lkey, send->remote_address, send->compare_add,
                    TESSERA_VERBS_ACCESS_MW_BIND);
  if (!region || !may_bind(qp, region, send->swap)) return failed;
  window->key = key;
  window->bound = true;
  window->region_key = region->key;
  window->region_serial = region->serial;
  window->qpn = qp->number;
  window->access = (uint32_t)send->swap;
  window->address = send->remote_address;
  window->bytes = send->compare_add;
  return TESSERA_VERBS_STATUS_SUCCESS;
}

bool hca_may_invalidate(const struct hca *hca, const struct hca_qp *qp, uint32_t key) {
  const struct hca_window *window = hca_window_of(hca, key);
  return is_owned(window, qp) && window->type == TESSERA_VERBS_MW_TYPE_TYPE_2 && window->bound &&
         window->key == key && window->qpn == qp->number;
}

void hca_invalidate(const struct hca *hca, uint32_t key) {
  struct hca_window *window = hca_window_of(hca, key);
  if (window) window->bound = false;
}

/* Resolve a window's key: it opens part of its owner's region, whatever the region itself
 * permits. */
static const struct hca_region *through(struct hca *hca, const struct hca_qp *qp, uint32_t key,
                                        uint64_t *address, uint64_t bytes, uint32_t access) {
  const struct hca_window *window = hca_window_of(hca, key);
  if (!window || !window->bound || window->key != key) return NULL;
  if (window->client != qp->client || window->pd != qp->pd) return NULL;
  if (window->type == TESSERA_VERBS_MW_TYPE_TYPE_2 && window->qpn != qp->number) return NULL;
  if ((window->access & access) != access) return NULL;
  const bool zero_based = window->access & TESSERA_VERBS_ACCESS_ZERO_BASED;
  if (!hca_holds(zero_based ? 0 : window->address, window->bytes, *address, bytes)) return NULL;
  if (zero_based) *address += window->address;
  const struct hca_region *region = hca_region_of(hca, qp, window->region_key, *address, bytes, 0);
  if (!region || region->serial != window->region_serial) return NULL;
  return hca_policy_opens(&qp->policy, region->access, access) ? region : NULL;
}

const struct hca_region *hca_reach(struct hca *hca, const struct hca_qp *qp, uint32_t key,
                                   uint64_t *address, uint64_t bytes, uint32_t access) {
  const struct hca_region *region = hca_region_of(hca, qp, key, *address, bytes, access);
  return region ? region : through(hca, qp, key, address, bytes, access);
}
