/* The libibverbs functions that this library calls. */
#ifndef TSR_VERBS_API_H
#define TSR_VERBS_API_H

#include "rdma_types.h"

struct ibv_device **ibv_get_device_list(int *count);
void ibv_free_device_list(struct ibv_device **list);
struct ibv_context *ibv_open_device(struct ibv_device *device);
int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector);
int ibv_destroy_cq(struct ibv_cq *cq);
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int ibv_destroy_qp(struct ibv_qp *qp);
/* Exported only by Tessera's libibverbs.so.1; each sends several requests at once.
 * tessera_create_qp also makes the completion queues, with channels, that `attr` does not name. */
struct ibv_qp *tessera_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, void *cq_context,
                                 struct ibv_qp_attr *initial, int mask);
int tessera_modify_qp_twice(struct ibv_qp *qp, struct ibv_qp_attr *attrs, int *masks);
/* A queue that is NULL is not changed. */
int tessera_destroy_qp(struct ibv_qp *qp, struct ibv_cq *recv_cq, struct ibv_cq *send_cq);
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

#endif
