/* Filling in requests in a queue pair's ring. The caller holds `sending`. */
#ifndef TSR_POST_H
#define TSR_POST_H

#include "objects.h"

/* Return the slot for a send request at `head`; NULL where the ring is full. */
tessera_hca_send_slot *tsr_send_slot(struct tsr_qp *qp, uint32_t head);
/* Publish the requests up to `head` to hcad. */
void tsr_send_publish(struct tsr_qp *qp, uint32_t head);
/* Append data to an inline request: 0, or ENOMEM where it does not fit. */
int tsr_append_inline(tessera_hca_send_slot *slot, const void *data, size_t bytes);
/* Fill in a receive request: 0 or an errno value. */
int tsr_fill_recv(struct tsr_context *context, tessera_hca_recv_slot *slot,
                  const struct ibv_recv_wr *wr);
/* Fill in a scatter-gather list, for which the slot has room: 0 or an errno value. */
int tsr_fill_sges(struct tsr_context *context, tessera_hca_sge *sges, const struct ibv_sge *list,
                  size_t count);
/* Fill in a request that binds a memory window. */
void tsr_fill_bind(tessera_hca_send_slot *slot, const struct ibv_mw *mw, uint32_t key,
                   const struct ibv_mw_bind_info *info);
bool tsr_may_send(const struct tsr_qp *qp);

#endif
