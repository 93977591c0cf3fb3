/* Finds the connected queue pair that a packet is addressed to. */
#include <string.h>

#include "wire/wire.h"

struct hca_qp *wire_target(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                           uint32_t qpn, uint16_t pkey) {
  struct hca_qp *qp = hca_table_get(&hca->qps, qpn);
  if (!qp || !qp->wired || qp->wired->wire != wire) {
    wire->counts.unknown_qp++;
    return NULL;
  }
  if (memcmp(path->source, qp->wired->path.destination, sizeof path->source) != 0) {
    wire->counts.wrong_source++;
    return NULL;
  }
  if (!wire_pkeys_match(pkey, wire_pkey(qp))) {
    wire->counts.bad_pkey++;
    return NULL;
  }
  return qp;
}
