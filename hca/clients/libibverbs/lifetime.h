/* Client-side objects: initialised after hcad has created its own objects, and freed after hcad
 * has removed them. */
#ifndef TSR_VERBS_LIFETIME_H
#define TSR_VERBS_LIFETIME_H

#include "objects.h"

void tsr_channel_init(struct tsr_channel *channel, struct ibv_context *context, uint32_t handle);
void tsr_channel_release(struct tsr_channel *channel);

/* Initialise a completion queue; takes ownership of the page's descriptor. 0 or an errno value:
 * then the queue is not usable. */
int tsr_cq_init(struct tsr_cq *cq, struct ibv_context *context, struct ibv_comp_channel *channel,
                void *cq_context, const tessera_hca_created *made, int fd);
void tsr_cq_release(struct tsr_cq *cq);

/* Fill in the request for a queue pair; 0, or an errno value if its attributes are invalid. */
int tsr_qp_make_request(const struct ibv_pd *pd, const struct ibv_qp_init_attr *attr,
                        bool block_self, tessera_hca_qp_create *wanted);
/* As tsr_cq_init(). The queues in `attr` exist; its capacities are set to the actual ones. */
int tsr_qp_init(struct tsr_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
                const tessera_hca_created *made, int fd);
void tsr_qp_release(struct tsr_qp *qp);

/* Fill in the request to modify a queue pair, and record its new attributes. */
void tsr_qp_modification(const struct ibv_qp_attr *attr, int mask, tessera_hca_qp_modify *wanted);
void tsr_qp_apply(struct ibv_qp *qp, const tessera_hca_qp_attributes *now);

#endif
