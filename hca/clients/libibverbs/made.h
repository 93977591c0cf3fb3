/* Objects beside what hcad has of them: given shape when they have been made, freed when they are gone. */
#ifndef TSR_VERBS_MADE_H
#define TSR_VERBS_MADE_H

#include "objects.h"

void tsr_channel_made(struct tsr_channel *channel, struct ibv_context *context, uint32_t handle);
void tsr_channel_gone(struct tsr_channel *channel);

/* Takes the page's descriptor; 0 or an errno value, and then the queue is not one. */
int tsr_cq_made(struct tsr_cq *cq, struct ibv_context *context, struct ibv_comp_channel *channel,
                void *cq_context, const tessera_hca_created *made, int fd);
void tsr_cq_gone(struct tsr_cq *cq);

/* What is asked for; 0, or why nobody is asked. */
int tsr_qp_wanted(const struct ibv_pd *pd, const struct ibv_qp_init_attr *attr, bool block_self,
                  tessera_hca_qp_create *wanted);
/* As tsr_cq_made(), with queues that `attr` has by now; its capacities become what there is. */
int tsr_qp_made(struct tsr_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
                const tessera_hca_created *made, int fd);
void tsr_qp_gone(struct tsr_qp *qp);

/* A change of a queue pair, as it is asked for; and what it has become. */
void tsr_qp_modification(const struct ibv_qp_attr *attr, int mask, tessera_hca_qp_modify *wanted);
void tsr_qp_modified(struct ibv_qp *qp, const tessera_hca_qp_attributes *now);

#endif
