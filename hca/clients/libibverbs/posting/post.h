/* Filling in requests in a queue pair's ring. The caller holds `sending`. */
#ifndef TSR_POST_H
#define TSR_POST_H

#include "objects.h"

/* The slot of a send request at `head`; NULL where the ring is full. */
tessera_hca_send_slot *tsr_send_slot(struct tsr_qp *qp, uint32_t head);
/* Lets hcad have the requests up to `head`. */
void tsr_send_publish(struct tsr_qp *qp, uint32_t head);
/* Appends data to an inline request: 0, or ENOMEM where it is too much. */
int tsr_append_inline(tessera_hca_send_slot *slot, const void *data, size_t bytes);
/* Fills in a receive request: 0 or an errno value. */
int tsr_fill_recv(struct tsr_context *context, tessera_hca_recv_slot *slot,
                  const struct ibv_recv_wr *wr);
/* Fills in a list of addresses, which the slot has room for: 0 or an errno value. */
int tsr_fill_sges(struct tsr_context *context, tessera_hca_sge *sges, const struct ibv_sge *list,
                  size_t count);
/* Fills in what binds a memory window. */
void tsr_fill_bind(tessera_hca_send_slot *slot, const struct ibv_mw *mw, uint32_t key,
                   const struct ibv_mw_bind_info *info);
bool tsr_may_send(const struct tsr_qp *qp);

#endif
